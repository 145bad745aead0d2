@echo off
rem Compile build\cuda_portfolio.exe on Windows. Start it from an "x64 Native Tools" prompt, where cl.exe is on the path.
rem The tests check its lines only; it has never been run on Windows.
setlocal
cd /d "%~dp0.."

where cl.exe >nul 2>nul
if errorlevel 1 (
  echo cl.exe was not found. Open the "x64 Native Tools Command Prompt" of Visual Studio and start this again. 1>&2
  exit /b 2
)

set "NVCC="
if exist ".venv\Lib\site-packages\nvidia\cu13\bin\nvcc.exe" set "NVCC=.venv\Lib\site-packages\nvidia\cu13\bin\nvcc.exe"
if not defined NVCC for %%I in (nvcc.exe) do if not "%%~$PATH:I"=="" set "NVCC=%%~$PATH:I"
if not defined NVCC (
  echo nvcc was found neither in .venv nor on the path. Run scripts\setup_windows.ps1, or install the CUDA toolkit. 1>&2
  exit /b 2
)

if not exist build mkdir build
"%NVCC%" -O3 -std=c++17 -arch=all-major -o build\cuda_portfolio.exe cuda\portfolio.cu
if errorlevel 1 exit /b 1
echo Compiled build\cuda_portfolio.exe. Next: build\cuda_portfolio.exe --test-only
endlocal
