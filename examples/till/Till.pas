// A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. Delphi 10.3 or later on Windows, without packages.
// NOT RUN: Delphi needs Windows. A test compares its steps, paths, headers and fields with those that the Python till sent.
//
//   Till := TTill.Create('http://127.0.0.1:3000', Key, 'CAJA-1', 'till-data');
//   Outcome := Till.Charge('0001-00004711', 1234.50);   // the same call again repeats what was sent
//   Till.Cancel('0001-00004711');
//   Till.Refund('0001-00004711', 234.50);               // 0: all that is left
//   Till.Resume;                                        // at each start of the till: finishes what a crash left
//   Till.CloseDay('2026-11-21', ['credit_card=182340,50', 'debit_card=90210,00']);
unit Till;

interface

uses
  System.SysUtils, System.Classes, System.JSON, System.IOUtils, System.Net.HttpClient, System.Net.URLClient, System.NetEncoding,
  Winapi.Windows;

type
  /// <summary>An error that the same request does not mend; Answer has code, outcome, retry.</summary>
  ERefused = class(Exception)
    Answer: TJSONObject;
    constructor CreateOf(AAnswer: TJSONObject);
    destructor Destroy; override;
  end;

  /// <summary>Not known yet. Send the same request with the same key later.</summary>
  ENoAnswer = class(Exception);

  TTill = class
  private
    FUrl, FKey, FBox, FFolder: string;
    function FileOf(const Ticket, Name: string): string;
    function Read(const Ticket, Name: string): string;
    procedure Keep(const Ticket, Name, Value: string);
    function Request(const Method, Path, Body, Key: string; out Status, Seconds: Integer): TJSONObject;
    function SendUntilAnswered(const Method, Path, Body, Key: string): TJSONObject;
    procedure SendCharge(const Ticket: string);
    function WaitForEnd(const Ticket: string): string;
  public
    ShowCashierText: TProc<string>;
    constructor Create(const Url, Key, Box, Folder: string);
    procedure ShowCashier(Answer: TJSONObject);
    function Charge(const Ticket: string; Amount: Currency): string;
    function Cancel(const Ticket: string): string;
    function Refund(const Ticket: string; Amount: Currency): string;
    procedure Resume;
    function CloseDay(const Day: string; const Counted: array of string): string;
  end;

implementation

const
  Tries = 10;

function Text(Answer: TJSONObject; const Name: string): string;
var
  Value: TJSONValue;
begin
  Value := Answer.GetValue(Name);
  if (Value = nil) or (Value is TJSONNull) then Result := '' else Result := Value.Value;
end;

// '1234,50', whatever the decimal separator of Windows is. Currency counts exactly.
function AmountText(Amount: Currency): string;
var
  Settings: TFormatSettings;
begin
  Settings := TFormatSettings.Invariant;
  Settings.DecimalSeparator := ',';
  Result := FormatCurr('0.00', Amount, Settings);
end;

function NewKey: string;
begin
  Result := TGUID.NewGuid.ToString.Trim(['{', '}']).ToLower;
end;

constructor ERefused.CreateOf(AAnswer: TJSONObject);
begin
  inherited Create(Text(AAnswer, 'code') + ': ' + Text(AAnswer, 'error'));
  Answer := AAnswer;
end;

destructor ERefused.Destroy;
begin
  Answer.Free;
  inherited;
end;

constructor TTill.Create(const Url, Key, Box, Folder: string);
begin
  FUrl := Url;
  FKey := Key;
  FBox := Box;
  FFolder := Folder;
end;

// The till's memory: one small file a value. It survives a crash and a power cut; an ERP uses its own database.
function TTill.FileOf(const Ticket, Name: string): string;
begin
  Result := TPath.Combine(TPath.Combine(FFolder, TNetEncoding.URL.Encode(Ticket)), Name);
end;

function TTill.Read(const Ticket, Name: string): string;
begin
  if TFile.Exists(FileOf(Ticket, Name)) then Result := TFile.ReadAllText(FileOf(Ticket, Name), TEncoding.UTF8) else Result := '';
end;

procedure TTill.Keep(const Ticket, Name, Value: string);
var
  Bytes: TBytes;
  Stream: TFileStream;
  Target: string;
begin
  Target := FileOf(Ticket, Name);
  ForceDirectories(ExtractFilePath(Target));
  Bytes := TEncoding.UTF8.GetBytes(Value);
  Stream := TFileStream.Create(Target + '.new', fmCreate);
  try
    Stream.WriteBuffer(Bytes, Length(Bytes));
    FlushFileBuffers(Stream.Handle);
  finally
    Stream.Free;
  end;
  if not MoveFileEx(PChar(Target + '.new'), PChar(Target), MOVEFILE_REPLACE_EXISTING or MOVEFILE_WRITE_THROUGH) then RaiseLastOSError;
end;

/// One request. nil: no answer came, or none that can be read.
function TTill.Request(const Method, Path, Body, Key: string; out Status, Seconds: Integer): TJSONObject;
var
  Http: THTTPClient;
  Answer: IHTTPResponse;
  Content: TStringStream;
  Headers: TNetHeaders;
begin
  Result := nil;
  Status := 0;
  Seconds := 1;
  Content := nil;
  Http := THTTPClient.Create;
  try
    Http.ConnectionTimeout := 5000;
    Http.ResponseTimeout := 40000;
    Http.SecureProtocols := [THTTPSecureProtocol.TLS12];
    Headers := [TNameValuePair.Create('x-api-token', FKey), TNameValuePair.Create('accept-language', 'es')];
    if Key <> '' then Headers := Headers + [TNameValuePair.Create('idempotency-key', Key)];
    if Body <> '' then
    begin
      Headers := Headers + [TNameValuePair.Create('content-type', 'application/json; charset=utf-8')];
      Content := TStringStream.Create(Body, TEncoding.UTF8);
    end;
    try
      if Method = 'GET' then Answer := Http.Get(FUrl + Path, nil, Headers) else Answer := Http.Post(FUrl + Path, Content, nil, Headers);
      Status := Answer.StatusCode;
      Seconds := StrToIntDef(Answer.HeaderValue['retry-after'], 1);
      Result := TJSONObject.ParseJSONValue(Answer.ContentAsString(TEncoding.UTF8)) as TJSONObject;
    except
      on ENetException do Result := nil;
      on EInvalidCast do Result := nil;
    end;
  finally
    Content.Free;
    Http.Free;
  end;
end;

/// Repeats the same request with the same key after a lost answer and after retry = same_request.
function TTill.SendUntilAnswered(const Method, Path, Body, Key: string): TJSONObject;
var
  Tried, Status, Seconds: Integer;
  Retry: string;
begin
  for Tried := 1 to Tries do
  begin
    Result := Request(Method, Path, Body, Key, Status, Seconds);
    if (Result <> nil) and (Status < 400) then Exit;
    if Result <> nil then
    begin
      // Errors of requests that move no money have no retry: their status decides.
      Retry := Text(Result, 'retry');
      if (Retry = '') and ((Status = 408) or (Status = 429) or (Status = 503) or (Status = 504)) then Retry := 'same_request';
      if Retry <> 'same_request' then raise ERefused.CreateOf(Result);
      Result.Free;
    end;
    Sleep(Seconds * 1000);
  end;
  raise ENoAnswer.Create('no answer yet: send it again');
end;

procedure TTill.ShowCashier(Answer: TJSONObject);
var
  Cashier: TJSONObject;
begin
  if not Assigned(ShowCashierText) then Exit;
  if Answer.TryGetValue<TJSONObject>('cashier', Cashier) then ShowCashierText(Text(Cashier, 'message'))
  else ShowCashierText(Text(Answer, 'error'));
end;

function Json(const Names, Values: array of string): string;
var
  Body: TJSONObject;
  At: Integer;
begin
  Body := TJSONObject.Create;
  try
    for At := 0 to High(Names) do Body.AddPair(Names[At], Values[At]);
    Result := Body.ToJSON;
  finally
    Body.Free;
  end;
end;

function TTill.Charge(const Ticket: string; Amount: Currency): string;
var
  Body, Before: string;
  Failed: Boolean;
begin
  Body := Json(['caja_id', 'external_reference', 'amount'], [FBox, Ticket, AmountText(Amount)]);
  Before := Read(Ticket, 'body');
  Failed := Read(Ticket, 'outcome') = 'not_charged';
  if Failed and (Read(Ticket, 'order_id') = '') then Failed := Before <> Body
  else if Failed then Failed := Read(Ticket, 'retry_safe') = 'true';
  if (Before <> '') and (Before <> Body) and not Failed then
    raise Exception.Create('This ticket was sent with other content. Finish that charge first.');
  if (Before = '') or Failed then
  begin
    // Stored before it is sent: whatever happens from here on, the same key is sent again. The body comes last.
    Keep(Ticket, 'body', '');
    Keep(Ticket, 'key', NewKey);
    Keep(Ticket, 'order_id', '');
    Keep(Ticket, 'outcome', 'unknown');
    Keep(Ticket, 'body', Body);
  end;
  SendCharge(Ticket);
  Result := WaitForEnd(Ticket);
end;

procedure TTill.SendCharge(const Ticket: string);
var
  Answer: TJSONObject;
begin
  if (Read(Ticket, 'retry') = 'no') and (Read(Ticket, 'outcome') = 'unknown') then
    raise Exception.Create('Look for the order before you charge again.');
  try
    Answer := SendUntilAnswered('POST', '/orders', Read(Ticket, 'body'), Read(Ticket, 'key'));
    try
      Keep(Ticket, 'order_id', Text(Answer, 'order_id'));
      Keep(Ticket, 'outcome', Text(Answer, 'outcome'));
      Keep(Ticket, 'retry', '');
    finally
      Answer.Free;
    end;
  except
    on Refused: ERefused do
    begin
      Keep(Ticket, 'outcome', Text(Refused.Answer, 'outcome'));
      Keep(Ticket, 'retry', Text(Refused.Answer, 'retry'));
      ShowCashier(Refused.Answer);
      // ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
      if (Text(Refused.Answer, 'outcome') <> 'charged') or (Text(Refused.Answer, 'order_id') = '') then raise;
      Keep(Ticket, 'order_id', Text(Refused.Answer, 'order_id'));
    end;
  end;
end;

function TTill.WaitForEnd(const Ticket: string): string;
var
  Order: TJSONObject;
  Path, Version: string;
  IsOpen: Boolean;
begin
  Path := '/orders/' + Read(Ticket, 'order_id');
  Version := '';
  repeat
    if Version = '' then Order := SendUntilAnswered('GET', Path, '', '')
    else Order := SendUntilAnswered('GET', Path + '?wait=30&version=' + Version, '', '');
    try
      ShowCashier(Order);
      Version := Text(Order, 'version');
      Result := Text(Order, 'outcome');
      IsOpen := (Result = 'unknown') and (Text(Order, 'needs_decision') = '')
        and not (Order.GetValue('settled') is TJSONObject);
      Keep(Ticket, 'retry_safe', Text(Order, 'retry_safe'));
      Keep(Ticket, 'outcome', Result);
    finally
      Order.Free;
    end;
    if IsOpen then Sleep(200);
  until not IsOpen;
end;

function TTill.Cancel(const Ticket: string): string;
begin
  if Read(Ticket, 'order_id') = '' then SendCharge(Ticket);
  try
    SendUntilAnswered('POST', '/orders/cancel', Json(['order_id'], [Read(Ticket, 'order_id')]), '').Free;
  except
    // ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
    on Refused: ERefused do ShowCashier(Refused.Answer);
  end;
  Result := WaitForEnd(Ticket);
end;

function TTill.Refund(const Ticket: string; Amount: Currency): string;
var
  Body: string;
begin
  // A refund that got no answer is repeated before any other.
  if Read(Ticket, 'refund') = '' then
  begin
    if Amount = 0 then Body := Json(['order_id'], [Read(Ticket, 'order_id')])
    else Body := Json(['order_id', 'amount'], [Read(Ticket, 'order_id'), AmountText(Amount)]);
    Keep(Ticket, 'refund_key', NewKey);
    Keep(Ticket, 'refund', Body);
  end
  else if Assigned(ShowCashierText) then ShowCashierText('The refund of before is sent again, and no other');
  try
    SendUntilAnswered('POST', '/orders/refund', Read(Ticket, 'refund'), Read(Ticket, 'refund_key')).Free;
  except
    on Refused: ERefused do
    begin
      ShowCashier(Refused.Answer);
      if Text(Refused.Answer, 'outcome') <> 'unknown' then Keep(Ticket, 'refund', '');
      raise;
    end;
  end;
  Keep(Ticket, 'refund', '');
  Result := WaitForEnd(Ticket);
end;

procedure TTill.Resume;
var
  Folder, Ticket: string;
begin
  for Folder in TDirectory.GetDirectories(FFolder) do
  begin
    Ticket := TNetEncoding.URL.Decode(ExtractFileName(Folder));
    if Read(Ticket, 'refund') <> '' then Refund(Ticket, 0)
    else if (Read(Ticket, 'body') <> '') and (Read(Ticket, 'outcome') = 'unknown') then
    begin
      SendCharge(Ticket);
      WaitForEnd(Ticket);
    end;
  end;
end;

function TTill.CloseDay(const Day: string; const Counted: array of string): string;
var
  Body, Declared, Closing: TJSONObject;
  One, Id: string;
begin
  Body := TJSONObject.Create;
  try
    Declared := TJSONObject.Create;
    for One in Counted do Declared.AddPair(One.Split(['='])[0], One.Split(['='])[1]);
    Body.AddPair('caja_id', FBox).AddPair('business_day', Day).AddPair('declared', Declared);
    Closing := SendUntilAnswered('POST', '/closings', Body.ToJSON, '');
  finally
    Body.Free;
  end;
  Id := Text(Closing, 'id');
  Result := Text(Closing, 'state');
  Closing.Free;
  while (Result = 'open') or (Result = 'checking') do
  begin
    Sleep(2000);
    Closing := SendUntilAnswered('GET', '/closings/' + Id, '', '');
    Result := Text(Closing, 'state');
    Closing.Free;
  end;
end;

end.
