<#
.SYNOPSIS
Make .venv and install the project with its pinned toolchain, on Windows.
.DESCRIPTION
The tests check that this file parses. It has never been run on Windows.
Triton has no package for Windows: pages show its accepted records.
#>
[CmdletBinding()]
param(
    [ValidateSet("cuda", "cpu")]
    [string] $Torch = "cpu",

    # The launcher of Python for Windows, or the path of an interpreter.
    [string] $Python = "py"
)

Set-StrictMode -Version 2.0
$ErrorActionPreference = "Stop"
$Root = Split-Path -Parent $PSScriptRoot
Set-Location -Path $Root

$found = & $Python -c "import sys; print('%d.%d' % sys.version_info[:2])"
if ($LASTEXITCODE -ne 0) {
    throw "'$Python' could not be started. Install Python 3.11 or newer, or name an interpreter with -Python."
}
if ([version] $found -lt [version] "3.11") {
    throw "This Python is $found; the project needs 3.11 or newer. Name another with -Python."
}

$interpreter = Join-Path $Root ".venv\Scripts\python.exe"
if (-not (Test-Path $interpreter)) {
    Write-Output "Making .venv with Python $found"
    & $Python -m venv .venv
    if ($LASTEXITCODE -ne 0) {
        throw "Python could not make a virtual environment in $Root\.venv."
    }
}

Write-Output "Installing the pinned toolchain ($Torch build of torch)"
& $interpreter -m pip install --disable-pip-version-check --quiet `
    --constraint constraints\site.txt --constraint "constraints\torch-$Torch.txt" `
    --editable ".[site,triton,cuda,test]"
if ($LASTEXITCODE -ne 0) {
    throw "pip could not install the project; its message stands above."
}
Get-ChildItem -Path .venv -Filter ".installed-*" -Force | Remove-Item -Force
New-Item -ItemType File -Path ".venv\.installed-$Torch" | Out-Null
Write-Output "Installed. Next: ./make.ps1 site"
