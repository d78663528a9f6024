# A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. Windows PowerShell 5.1, nothing to install.
# NOT RUN: there was no PowerShell on the test machine. A test compares its steps, paths, headers and fields with those that the
# Python till sent. `test/docs/tills.test.ts` runs it where `pwsh` is installed. Save it as UTF-8 with BOM.
#
#   $env:TILLBRIDGE_URL = 'http://127.0.0.1:3000'; $env:TILLBRIDGE_KEY = 'mk_...'; $env:TILLBRIDGE_BOX = 'CAJA-1'
#   .\till.ps1 charge 0001-00004711 '1234,50'     charges the ticket; the same command again repeats what was sent
#   .\till.ps1 cancel 0001-00004711
#   .\till.ps1 refund 0001-00004711 '234,50'      without an amount: all that is left
#   .\till.ps1 resume                             at each start of the till: finishes what a crash left
#   .\till.ps1 close_day 2026-11-21 'credit_card=182340,50' 'debit_card=90210,00'
#
# Ends with 0: done. 1: refused, or not charged. 2: no answer yet, send it again.
param([string]$Step, [string]$Ticket, [Parameter(ValueFromRemainingArguments = $true)][string[]]$Words)
$ErrorActionPreference = 'Stop'
[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
$url = if ($env:TILLBRIDGE_URL) { $env:TILLBRIDGE_URL } else { 'http://127.0.0.1:3000' }
$box = if ($env:TILLBRIDGE_BOX) { $env:TILLBRIDGE_BOX } else { 'CAJA-1' }
$folder = if ($env:TILL_FILE) { $env:TILL_FILE } else { 'till-data' }
$folder = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($folder)
$tries = 10
$headers = @{ 'x-api-token' = $env:TILLBRIDGE_KEY; 'accept-language' = 'es' }

# The till's memory: one small file a value. An ERP uses its own database.
function Get-FileOf($ticket, $name) { Join-Path (Join-Path $folder ([Uri]::EscapeDataString($ticket))) $name }
function Read-Value($ticket, $name) {
  $file = Get-FileOf $ticket $name
  if (Test-Path -LiteralPath $file) { [IO.File]::ReadAllText($file) } else { $null }
}
function Keep($ticket, $name, $value) {
  $file = Get-FileOf $ticket $name
  [void][IO.Directory]::CreateDirectory([IO.Path]::GetDirectoryName($file))
  if ($null -eq $value) { [IO.File]::Delete($file); return }
  $bytes = [Text.Encoding]::UTF8.GetBytes([string]$value)
  $stream = New-Object IO.FileStream ("$file.new", [IO.FileMode]::Create)
  try { $stream.Write($bytes, 0, $bytes.Length); $stream.Flush($true) } finally { $stream.Dispose() }
  if ([IO.File]::Exists($file)) { [IO.File]::Replace("$file.new", $file, [NullString]::Value) } else { [IO.File]::Move("$file.new", $file) }
}

# One request: status, seconds to wait, answer. Answer is $null when none came, or none that can be read.
function Send-Request($method, $path, $body, $key) {
  $request = [Net.HttpWebRequest]::Create("$url$path")
  $request.Method = $method
  $request.Timeout = 40000
  $request.ReadWriteTimeout = 40000
  foreach ($name in $headers.Keys) { $request.Headers[$name] = $headers[$name] }
  if ($key) { $request.Headers['idempotency-key'] = $key }
  $lost = @{ status = 0; seconds = 1; answer = $null }
  try {
    if ($body) {
      $bytes = [Text.Encoding]::UTF8.GetBytes($body)
      $request.ContentType = 'application/json; charset=utf-8'
      $stream = $request.GetRequestStream()
      $stream.Write($bytes, 0, $bytes.Length)
      $stream.Close()
    }
    try { $response = $request.GetResponse() }
    catch {
      # An error has an answer too.
      $failure = $_.Exception
      while ($failure -and $failure -isnot [Net.WebException]) { $failure = $failure.InnerException }
      $response = $failure.Response
      if (-not $response) { return $lost }
    }
    $reader = New-Object IO.StreamReader ($response.GetResponseStream(), [Text.Encoding]::UTF8)
    $text = $reader.ReadToEnd()
    $response.Close()
    $seconds = [int]$response.Headers['retry-after']
    return @{ status = [int]$response.StatusCode; seconds = [Math]::Max(1, $seconds); answer = ($text | ConvertFrom-Json) }
  } catch { return $lost }
}

# Repeats the same request with the same key after a lost answer and after retry = same_request.
function Send-Until-Answered($method, $path, $body, $key) {
  for ($try = 1; $try -le $tries; $try++) {
    $got = Send-Request $method $path $body $key
    if ($got.answer) {
      if ($got.status -lt 400) { return $got.answer }
      # Errors of requests that move no money have no retry: their status decides.
      $retry = $got.answer.retry
      if (-not $retry) { $retry = if ($got.status -in 408, 429, 503, 504) { 'same_request' } else { 'after_change' } }
      if ($retry -ne 'same_request') {
        $refused = New-Object Exception "$($got.answer.code): $($got.answer.error)"
        $refused.Data['answer'] = $got.answer
        throw $refused
      }
    }
    Start-Sleep -Seconds $got.seconds
  }
  throw (New-Object TimeoutException 'no answer yet: send it again')
}

function Show-Cashier($answer) { Write-Host $(if ($answer.cashier) { $answer.cashier.message } else { $answer.error }) }

function Charge($ticket, $amount) {
  $body = [ordered]@{ caja_id = $box; external_reference = $ticket; amount = $amount } | ConvertTo-Json -Compress
  $before = Read-Value $ticket 'body'
  $hasOrder = $null -ne (Read-Value $ticket 'order_id')
  $failed = (Read-Value $ticket 'outcome') -eq 'not_charged' -and
    $(if ($hasOrder) { (Read-Value $ticket 'retry_safe') -eq 'True' } else { $before -ne $body })
  if ($before -and $before -ne $body -and -not $failed) { throw 'This ticket was sent with other content. Finish that charge first.' }
  if (-not $before -or $failed) {
    # Stored before it is sent: whatever happens from here on, the same key is sent again. The body comes last.
    Keep $ticket 'body' $null
    Keep $ticket 'key' ([guid]::NewGuid().ToString())
    Keep $ticket 'order_id' $null
    Keep $ticket 'outcome' 'unknown'
    Keep $ticket 'body' $body
  }
  Send-Charge $ticket
  Wait-For-End $ticket
}

function Send-Charge($ticket) {
  if ((Read-Value $ticket 'retry') -eq 'no' -and (Read-Value $ticket 'outcome') -eq 'unknown') { throw 'Look for the order before you charge again.' }
  try { $answer = Send-Until-Answered 'POST' '/orders' (Read-Value $ticket 'body') (Read-Value $ticket 'key') }
  catch {
    $answer = $_.Exception.Data['answer']
    if (-not $answer) { throw }
    Keep $ticket 'outcome' $answer.outcome
    Keep $ticket 'retry' $answer.retry
    # ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
    if ($answer.outcome -ne 'charged' -or -not $answer.order_id) { throw }
  }
  Keep $ticket 'order_id' $answer.order_id
  Keep $ticket 'outcome' $answer.outcome
  Keep $ticket 'retry' $null
}

function Wait-For-End($ticket) {
  $path = "/orders/$(Read-Value $ticket 'order_id')"
  $order = Send-Until-Answered 'GET' $path
  Show-Cashier $order
  while ($order.outcome -eq 'unknown' -and -not $order.needs_decision -and -not $order.settled) {
    Start-Sleep -Milliseconds 200
    $order = Send-Until-Answered 'GET' "$($path)?wait=30&version=$($order.version)"
    Show-Cashier $order
  }
  Keep $ticket 'retry_safe' $order.retry_safe
  Keep $ticket 'outcome' $order.outcome
  $order
}

function Cancel($ticket) {
  if (-not (Read-Value $ticket 'order_id')) { Send-Charge $ticket }
  try { [void](Send-Until-Answered 'POST' '/orders/cancel' (@{ order_id = Read-Value $ticket 'order_id' } | ConvertTo-Json -Compress)) }
  catch {
    # ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
    if (-not $_.Exception.Data['answer']) { throw }
    Show-Cashier $_.Exception.Data['answer']
  }
  Wait-For-End $ticket
}

function Refund($ticket, $amount) {
  # A refund that got no answer is repeated before any other.
  if (-not (Read-Value $ticket 'refund')) {
    $body = @{ order_id = Read-Value $ticket 'order_id' }
    if ($amount) { $body.amount = $amount }
    Keep $ticket 'refund_key' ([guid]::NewGuid().ToString())
    Keep $ticket 'refund' ($body | ConvertTo-Json -Compress)
  } else { Write-Host 'The refund of before is sent again, and no other' }
  try { [void](Send-Until-Answered 'POST' '/orders/refund' (Read-Value $ticket 'refund') (Read-Value $ticket 'refund_key')) }
  catch {
    $answer = $_.Exception.Data['answer']
    if ($answer -and $answer.outcome -ne 'unknown') { Keep $ticket 'refund' $null }
    throw
  }
  Keep $ticket 'refund' $null
  Wait-For-End $ticket
}

function Resume() {
  foreach ($name in (Get-ChildItem -LiteralPath $folder -Directory).Name) {
    $ticket = [Uri]::UnescapeDataString($name)
    if (Read-Value $ticket 'refund') { [void](Refund $ticket $null) }
    elseif ((Read-Value $ticket 'body') -and (Read-Value $ticket 'outcome') -eq 'unknown') {
      Send-Charge $ticket
      [void](Wait-For-End $ticket)
    }
  }
}

function Close-Day($day, $counted) {
  $declared = @{}
  foreach ($one in $counted) { $medium, $amount = $one -split '=', 2; $declared[$medium] = $amount }
  $body = @{ caja_id = $box; business_day = $day; declared = $declared } | ConvertTo-Json -Compress
  $closing = Send-Until-Answered 'POST' '/closings' $body
  while ($closing.state -in 'open', 'checking') {
    Start-Sleep -Seconds 2
    $closing = Send-Until-Answered 'GET' "/closings/$($closing.id)"
  }
  foreach ($line in $closing.lines) { Write-Host "$($line.kind) $($line.message)" }
  Write-Host "closing $($closing.number): $($closing.state)"
}

try {
  $order = switch ($Step) {
    'charge' { Charge $Ticket $Words[0] }
    'cancel' { Cancel $Ticket }
    'refund' { Refund $Ticket $(if ($Words) { $Words[0] }) }
    'resume' { Resume }
    'close_day' { Close-Day $Ticket $Words }
    default { throw 'a step is one of charge, cancel, refund, resume, close_day' }
  }
  if ($order) { Write-Host "$($order.external_reference): $($order.outcome)" }
  if ($Step -eq 'charge' -and $order.outcome -ne 'charged') { exit 1 }
  exit 0
} catch {
  if ($_.Exception.Data['answer']) { Show-Cashier $_.Exception.Data['answer'] }
  [Console]::Error.WriteLine($_.Exception.Message)
  if ($_.Exception -is [TimeoutException]) { exit 2 }
  exit 1
}
