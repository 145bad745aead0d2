<#
.SYNOPSIS
The verbs of the Makefile, for Windows PowerShell 5.1 and PowerShell 7.
.DESCRIPTION
The tests check that this file parses. It has never been run on Windows.
.EXAMPLE
./make.ps1 site
.EXAMPLE
./make.ps1 test -Torch cpu
#>
[CmdletBinding()]
param(
    [Parameter(Position = 0)]
    [ValidateSet("help", "install", "site", "serve", "test", "verify", "accept", "cuda", "gpu", "lint", "clean")]
    [string] $Verb = "help",

    [ValidateSet("cuda", "cpu")]
    [string] $Torch = "cpu",

    [Parameter(ValueFromRemainingArguments = $true)]
    [string[]] $Rest = @()
)

Set-StrictMode -Version 2.0
$ErrorActionPreference = "Stop"
Set-Location -Path $PSScriptRoot
$Bin = Join-Path $PSScriptRoot ".venv\Scripts"
if (-not $PSBoundParameters.ContainsKey("Torch") -and (Test-Path ".venv\.installed-cuda")) {
    $Torch = "cuda" # what .venv has is the default
}

function Invoke-Tool {
    param([string] $Name, [string[]] $Arguments = @())
    & (Join-Path $Bin $Name) @Arguments
    if ($LASTEXITCODE -ne 0) {
        exit $LASTEXITCODE
    }
}

function Install-Project {
    $stamp = Join-Path $PSScriptRoot ".venv\.installed-$Torch"
    $inputs = @("pyproject.toml", "constraints\site.txt", "constraints\torch-$Torch.txt", "scripts\setup_windows.ps1")
    if (Test-Path $stamp) {
        $installed = (Get-Item $stamp).LastWriteTimeUtc
        $newer = @($inputs | Where-Object { (Get-Item $_).LastWriteTimeUtc -gt $installed })
        if ($newer.Count -eq 0) {
            return
        }
    }
    & (Join-Path $PSScriptRoot "scripts\setup_windows.ps1") -Torch $Torch
}

switch ($Verb) {
    "help" {
        @(
            "install   Make .venv and install the pinned toolchain.",
            "site      Build the site into site\.",
            "serve     Preview the site while you edit it.",
            "test      Run the tests.",
            "verify    Execute every block and compare it with its accepted output.",
            "accept    Execute every block and accept what it gives.",
            "cuda      Compile the CUDA test program.",
            "gpu       Everything that needs a GPU; runs in WSL.",
            "lint      Check style.",
            "clean     Remove what was built; accepted outputs and results stay."
        ) | Write-Output
    }
    "install" { Install-Project }
    "site" { Install-Project; Invoke-Tool "lessons" (@("build") + $Rest) }
    "serve" { Install-Project; Invoke-Tool "lessons" (@("serve") + $Rest) }
    "test" { Install-Project; Invoke-Tool "python" (@("-m", "pytest", "-n", "2", "--dist", "loadgroup") + $Rest) }
    "verify" { Install-Project; Invoke-Tool "lessons" (@("verify") + $Rest) }
    "accept" { Install-Project; Invoke-Tool "lessons" (@("accept") + $Rest) }
    "cuda" {
        Install-Project
        & (Join-Path $PSScriptRoot "scripts\build_cuda_windows.cmd")
        exit $LASTEXITCODE
    }
    "gpu" {
        Write-Error "The GPU runner is a bash script; run 'make gpu' in WSL, which sees the same card."
    }
    "lint" {
        Install-Project
        Invoke-Tool "ruff" @("check", ".")
        Invoke-Tool "ruff" @("format", "--check", ".")
    }
    "clean" {
        foreach ($name in @("build", "site", ".lessons")) {
            if (Test-Path $name) {
                Remove-Item -Recurse -Force $name
            }
        }
        Get-ChildItem -Force -Directory -Filter ".site-*" | Remove-Item -Recurse -Force # of builds that were cut off
    }
}
