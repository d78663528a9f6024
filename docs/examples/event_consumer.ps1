# Stores the events of tillbridge, a file each. Windows PowerShell 5.1, nothing to install.
# NOT RUN: there was no PowerShell on the test machine. A test compares its paths, headers and fields with those that the Python
# consumer sent. `test/docs/event-consumer.test.ts` runs it where `pwsh` is installed. Save it as UTF-8 with BOM.
#
#   $env:TILLBRIDGE_URL = 'http://127.0.0.1:3000'; $env:TILLBRIDGE_KEY = 'mk_...'
#   .\event_consumer.ps1 events
#
# A crash loses no event and stores none twice: an event is committed after it is stored, and stored once by its id.
param([string]$Folder)
$ErrorActionPreference = 'Stop'
[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
$Folder = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($Folder)
$reader = "reader=$([Uri]::EscapeDataString([Environment]::MachineName))"

# The answer. It waits while there is none, or another reader is at work.
function Get-Answer($method, $path, $body) {
  while ($true) {
    $request = [Net.HttpWebRequest]::Create("$env:TILLBRIDGE_URL$path")
    $request.Method = $method
    $request.Timeout = 60000
    $request.Headers['x-api-token'] = $env:TILLBRIDGE_KEY
    $seconds = 2
    try {
      if ($body) {
        $bytes = [Text.Encoding]::UTF8.GetBytes($body)
        $request.ContentType = 'application/json; charset=utf-8'
        $stream = $request.GetRequestStream()
        $stream.Write($bytes, 0, $bytes.Length)
        $stream.Close()
      }
      $response = $request.GetResponse()
      $text = (New-Object IO.StreamReader ($response.GetResponseStream(), [Text.Encoding]::UTF8)).ReadToEnd()
      $response.Close()
      return $text | ConvertFrom-Json
    } catch {
      $failure = $_.Exception
      while ($failure -and $failure -isnot [Net.WebException]) { $failure = $failure.InnerException }
      $refusal = $failure.Response
      # 409 with retry-after: another reader is at work. Without an answer the service cannot be reached.
      if ($refusal) {
        $wait = [int]$refusal.Headers['retry-after']
        if ([int]$refusal.StatusCode -lt 500 -and -not $wait) { throw }
        $seconds = [Math]::Max($seconds, $wait)
        $refusal.Close()
      }
    }
    Start-Sleep -Seconds $seconds
  }
}

# Put your own rows here, in one transaction with the id of the event.
function Save-Event($happened) {
  $file = Join-Path $Folder "$($happened.id).json"
  if ([IO.File]::Exists($file)) { return }
  $bytes = [Text.Encoding]::UTF8.GetBytes(($happened | ConvertTo-Json -Depth 20 -Compress))
  $stream = New-Object IO.FileStream ("$file.new", [IO.FileMode]::Create)
  try { $stream.Write($bytes, 0, $bytes.Length); $stream.Flush($true) } finally { $stream.Dispose() }
  [IO.File]::Move("$file.new", $file)
}

[void][IO.Directory]::CreateDirectory($Folder)
[void](Get-Answer 'POST' '/events/feed/consumers' '{"name":"erp","from":"beginning"}')
while ($true) {
  $page = Get-Answer 'GET' "/events/feed?wait=30&consumer=erp&$reader"
  foreach ($happened in $page.events) { Save-Event $happened }
  if ($page.events) { [void](Get-Answer 'POST' "/events/feed/consumers/erp?$reader" (@{ after = $page.next } | ConvertTo-Json -Compress)) }
}
