Attribute VB_Name = "Till"
' A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. Visual Basic 6, or VBA of 32 bits. It uses
' WinHttp.WinHttpRequest.5.1 and ADODB.Stream, which Windows has.
' NOT RUN: VB6 needs Windows. A test compares its steps, paths, headers and fields with those that the Python till sent.
'
'   Till.Charge "0001-00004711", 1234.5     ' "charged" or "not_charged"; the same call again repeats what was sent
'   Till.Cancel "0001-00004711"
'   Till.Refund "0001-00004711", 234.5      ' 0: all that is left
'   Till.ResumeAll                          ' at each start of the till: finishes what a crash left
'   Till.CloseDay "2026-11-21", "credit_card=182340,50;debit_card=90210,00"
'
' TILLBRIDGE_URL, TILLBRIDGE_KEY and TILLBRIDGE_BOX come from the environment. A ticket is a name that a file may have.
Option Explicit

Public Const ErrRefused As Long = vbObjectError + 1001    ' the same request does not mend it; Refused is the answer
Public Const ErrNoAnswer As Long = vbObjectError + 1002   ' not known yet: send the same request with the same key later
Public Refused As String

Private Const Tries As Long = 10
Private Type GUID
    Part(0 To 15) As Byte
End Type
Private Declare Function CoCreateGuid Lib "ole32" (Id As GUID) As Long
Private Declare Sub Sleep Lib "kernel32" (ByVal Milliseconds As Long)
Private Declare Function WritePrivateProfileString Lib "kernel32" Alias "WritePrivateProfileStringA" (ByVal Section As String, ByVal Key As String, ByVal Value As String, ByVal File As String) As Long
Private Declare Function GetPrivateProfileString Lib "kernel32" Alias "GetPrivateProfileStringA" (ByVal Section As String, ByVal Key As String, ByVal Default As String, ByVal Result As String, ByVal Size As Long, ByVal File As String) As Long

Private Function Setting(Name As String, Default As String) As String
    Setting = Environ$(Name)
    If Setting = "" Then Setting = Default
End Function

' ---- The till's memory: a section a ticket. It survives the end of the program; for a power cut, use the ERP's database.
Private Function Memory() As String
    Memory = Setting("TILL_FILE", App.Path & "\till.ini")
End Function

Private Function ReadValue(Ticket As String, Name As String) As String
    Dim Buffer As String
    Buffer = Space$(2000)
    ReadValue = Left$(Buffer, GetPrivateProfileString(Ticket, Name, "", Buffer, 2000, Memory()))
End Function

Private Sub Keep(Ticket As String, Name As String, Value As String)
    If WritePrivateProfileString(Ticket, Name, Value, Memory()) = 0 Then Err.Raise vbObjectError + 1003, , "The till's memory cannot be written"
End Sub

' ---- Text and JSON
Private Function NewKey() As String
    Dim Id As GUID, At As Long
    CoCreateGuid Id
    For At = 0 To 15
        NewKey = NewKey & LCase$(Right$("0" & Hex$(Id.Part(At)), 2))
        If At = 3 Or At = 5 Or At = 7 Or At = 9 Then NewKey = NewKey & "-"
    Next
End Function

' "1234,50", whatever the regional settings say. Currency counts exactly.
Private Function AmountText(Amount As Currency) As String
    Dim Cents As Currency
    Cents = Int(Amount * 100 + 0.5)
    AmountText = CStr(Int(Cents / 100)) & "," & Right$("0" & CStr(Cents - Int(Cents / 100) * 100), 2)
End Function

Private Function Quote(Text As String) As String
    Quote = """" & Replace(Replace(Text, "\", "\\"), """", "\""") & """"
End Function

' The value of a field of the outermost object: text without its quotes, or the JSON of an object; "" where it is absent or null.
Public Function Field(Json As String, Name As String) As String
    Dim At As Long, Depth As Long, Last As Long
    At = 1
    Do While At <= Len(Json)
        Select Case Mid$(Json, At, 1)
        Case """"
            Last = StringEnd(Json, At)
            If Depth = 1 And Mid$(Json, At + 1, Last - At - 1) = Name And Mid$(Json, Last + 1, 1) = ":" Then
                Field = ValueAt(Json, Last + 2)
                Exit Function
            End If
            At = Last
        Case "{", "[": Depth = Depth + 1
        Case "}", "]": Depth = Depth - 1
        End Select
        At = At + 1
    Loop
End Function

Private Function StringEnd(Json As String, From As Long) As Long
    StringEnd = From + 1
    Do While StringEnd < Len(Json) And Mid$(Json, StringEnd, 1) <> """"
        StringEnd = StringEnd + IIf(Mid$(Json, StringEnd, 1) = "\", 2, 1)
    Loop
End Function

Private Function ValueAt(Json As String, From As Long) As String
    Dim At As Long, Depth As Long
    If Mid$(Json, From, 1) = """" Then
        ValueAt = Mid$(Json, From + 1, StringEnd(Json, From) - From - 1)
        ValueAt = Replace(Replace(ValueAt, "\""", """"), "\\", "\")
        Exit Function
    End If
    For At = From To Len(Json)
        Select Case Mid$(Json, At, 1)
        Case """": At = StringEnd(Json, At)
        Case "{", "[": Depth = Depth + 1
        Case "}", "]", ","
            If Depth = 0 Then Exit For
            If Mid$(Json, At, 1) <> "," Then Depth = Depth - 1
        End Select
    Next
    ValueAt = Mid$(Json, From, At - From)
    If ValueAt = "null" Then ValueAt = ""
End Function

Private Function ToUtf8(Text As String) As Variant
    With CreateObject("ADODB.Stream")
        .Type = 2
        .Charset = "utf-8"
        .Open
        .WriteText Text
        .Position = 0
        .Type = 1
        .Position = 3 ' after the byte order mark
        ToUtf8 = .Read
    End With
End Function

Private Function FromUtf8(Bytes As Variant) As String
    With CreateObject("ADODB.Stream")
        .Type = 1
        .Open
        .Write Bytes
        .Position = 0
        .Type = 2
        .Charset = "utf-8"
        FromUtf8 = .ReadText
    End With
End Function

' One request. The status; 0: no answer came, or none that can be read.
Private Function Request(Method As String, Path As String, Body As String, Key As String, Answer As String, Seconds As Long) As Long
    Dim Http As Object
    On Error GoTo Lost
    Seconds = 1
    Set Http = CreateObject("WinHttp.WinHttpRequest.5.1")
    Http.SetTimeouts 5000, 5000, 30000, 40000
    Http.Option(9) = 2048 ' WinHttpRequestOption_SecureProtocols: TLS 1.2
    Http.Open Method, Setting("TILLBRIDGE_URL", "http://127.0.0.1:3000") & Path, False
    Http.SetRequestHeader "x-api-token", Environ$("TILLBRIDGE_KEY")
    Http.SetRequestHeader "accept-language", "es"
    If Key <> "" Then Http.SetRequestHeader "idempotency-key", Key
    If Body = "" Then
        Http.Send
    Else
        Http.SetRequestHeader "content-type", "application/json; charset=utf-8"
        Http.Send ToUtf8(Body)
    End If
    Answer = FromUtf8(Http.ResponseBody)
    If InStr(1, Http.GetAllResponseHeaders, "retry-after:", vbTextCompare) > 0 Then Seconds = Val(Http.GetResponseHeader("retry-after"))
    If Seconds < 1 Then Seconds = 1
    If Left$(Answer, 1) = "{" Then Request = Http.Status
    Exit Function
Lost:
    Request = 0
End Function

' Repeats the same request with the same key after a lost answer and after retry = same_request.
Public Function SendUntilAnswered(Method As String, Path As String, Body As String, Key As String) As String
    Dim Tried As Long, Status As Long, Seconds As Long, Answer As String, Retry As String
    Refused = ""
    For Tried = 1 To Tries
        Status = Request(Method, Path, Body, Key, Answer, Seconds)
        If Status > 0 And Status < 400 Then
            SendUntilAnswered = Answer
            Exit Function
        End If
        If Status > 0 Then
            ' Errors of requests that move no money have no retry: their status decides.
            Retry = Field(Answer, "retry")
            If Retry = "" And (Status = 408 Or Status = 429 Or Status = 503 Or Status = 504) Then Retry = "same_request"
            If Retry <> "same_request" Then
                Refused = Answer
                Err.Raise ErrRefused, , Field(Answer, "code") & ": " & Field(Answer, "error")
            End If
        End If
        Sleep Seconds * 1000
    Next
    Err.Raise ErrNoAnswer, , "No answer yet: send it again"
End Function

' Put your own label here.
Public Sub ShowCashier(Answer As String)
    Dim Text As String
    Text = Field(Field(Answer, "cashier"), "message")
    If Text = "" Then Text = Field(Answer, "error")
    Debug.Print Text
    DoEvents
End Sub

' ---- The steps
Public Function Charge(Ticket As String, Amount As Currency) As String
    Dim Body As String, Before As String, Failed As Boolean
    Body = "{""caja_id"":" & Quote(Setting("TILLBRIDGE_BOX", "CAJA-1")) & ",""external_reference"":" & Quote(Ticket) & ",""amount"":""" & AmountText(Amount) & """}"
    Before = ReadValue(Ticket, "body")
    If ReadValue(Ticket, "order_id") = "" Then Failed = Before <> Body Else Failed = ReadValue(Ticket, "retry_safe") = "true"
    Failed = Failed And ReadValue(Ticket, "outcome") = "not_charged"
    If Before <> "" And Before <> Body And Not Failed Then Err.Raise vbObjectError + 1004, , "This ticket was sent with other content. Finish that charge first."
    If Before = "" Or Failed Then
        ' Stored before it is sent: whatever happens from here on, the same key is sent again. The body comes last.
        Keep Ticket, "body", ""
        Keep Ticket, "key", NewKey()
        Keep Ticket, "order_id", ""
        Keep Ticket, "outcome", "unknown"
        Keep Ticket, "body", Body
    End If
    SendCharge Ticket
    Charge = WaitForEnd(Ticket)
End Function

Private Sub SendCharge(Ticket As String)
    Dim Answer As String, Number As Long, Text As String
    If ReadValue(Ticket, "retry") = "no" And ReadValue(Ticket, "outcome") = "unknown" Then Err.Raise vbObjectError + 1005, , "Look for the order before you charge again."
    On Error Resume Next
    Answer = SendUntilAnswered("POST", "/orders", ReadValue(Ticket, "body"), ReadValue(Ticket, "key"))
    Number = Err.Number
    Text = Err.Description
    On Error GoTo 0
    If Number <> 0 And Refused = "" Then Err.Raise Number, , Text
    If Number <> 0 Then
        Answer = Refused
        Keep Ticket, "outcome", Field(Answer, "outcome")
        Keep Ticket, "retry", Field(Answer, "retry")
        ShowCashier Answer
        ' ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
        If Field(Answer, "outcome") <> "charged" Or Field(Answer, "order_id") = "" Then Err.Raise Number, , Text
    End If
    Keep Ticket, "order_id", Field(Answer, "order_id")
    Keep Ticket, "outcome", Field(Answer, "outcome")
    Keep Ticket, "retry", ""
End Sub

Public Function WaitForEnd(Ticket As String) As String
    Dim Path As String, Order As String
    Path = "/orders/" & ReadValue(Ticket, "order_id")
    Order = SendUntilAnswered("GET", Path, "", "")
    ShowCashier Order
    Do While Field(Order, "outcome") = "unknown" And Field(Order, "needs_decision") = "" And Field(Order, "settled") = ""
        Sleep 200
        Order = SendUntilAnswered("GET", Path & "?wait=30&version=" & Field(Order, "version"), "", "")
        ShowCashier Order
    Loop
    Keep Ticket, "retry_safe", Field(Order, "retry_safe")
    Keep Ticket, "outcome", Field(Order, "outcome")
    WaitForEnd = Field(Order, "outcome")
End Function

Public Function Cancel(Ticket As String) As String
    Dim Number As Long, Text As String
    If ReadValue(Ticket, "order_id") = "" Then SendCharge Ticket
    On Error Resume Next
    SendUntilAnswered "POST", "/orders/cancel", "{""order_id"":" & Quote(ReadValue(Ticket, "order_id")) & "}", ""
    Number = Err.Number
    Text = Err.Description
    On Error GoTo 0
    If Number <> 0 And Refused = "" Then Err.Raise Number, , Text
    ' ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
    If Number <> 0 Then ShowCashier Refused
    Cancel = WaitForEnd(Ticket)
End Function

Public Function Refund(Ticket As String, Amount As Currency) As String
    Dim Body As String, Number As Long, Text As String
    ' A refund that got no answer is repeated before any other.
    If ReadValue(Ticket, "refund") = "" Then
        Body = "{""order_id"":" & Quote(ReadValue(Ticket, "order_id"))
        If Amount > 0 Then Body = Body & ",""amount"":""" & AmountText(Amount) & """"
        Keep Ticket, "refund_key", NewKey()
        Keep Ticket, "refund", Body & "}"
    Else
        Debug.Print "The refund of before is sent again, and no other"
    End If
    On Error Resume Next
    SendUntilAnswered "POST", "/orders/refund", ReadValue(Ticket, "refund"), ReadValue(Ticket, "refund_key")
    Number = Err.Number
    Text = Err.Description
    On Error GoTo 0
    If Number <> 0 Then
        If Refused <> "" And Field(Refused, "outcome") <> "unknown" Then Keep Ticket, "refund", ""
        Err.Raise Number, , Text
    End If
    Keep Ticket, "refund", ""
    Refund = WaitForEnd(Ticket)
End Function

' Resume is a word of the language.
Public Sub ResumeAll()
    Dim Buffer As String, Ticket As Variant
    Buffer = Space$(32000)
    Buffer = Left$(Buffer, GetPrivateProfileString(vbNullString, vbNullString, "", Buffer, 32000, Memory()))
    For Each Ticket In Split(Buffer, vbNullChar)
        If Ticket <> "" Then
            If ReadValue(CStr(Ticket), "refund") <> "" Then
                Refund CStr(Ticket), 0
            ElseIf ReadValue(CStr(Ticket), "outcome") = "unknown" Then
                SendCharge CStr(Ticket)
                WaitForEnd CStr(Ticket)
            End If
        End If
    Next
End Sub

Public Function CloseDay(Day As String, Counted As String) As String
    Dim One As Variant, Declared As String, Closing As String
    For Each One In Split(Counted, ";")
        If Declared <> "" Then Declared = Declared & ","
        Declared = Declared & Quote(CStr(Split(One, "=")(0))) & ":" & Quote(CStr(Split(One, "=")(1)))
    Next
    Closing = SendUntilAnswered("POST", "/closings", "{""caja_id"":" & Quote(Setting("TILLBRIDGE_BOX", "CAJA-1")) & ",""business_day"":" & Quote(Day) & ",""declared"":{" & Declared & "}}", "")
    Do While Field(Closing, "state") = "open" Or Field(Closing, "state") = "checking"
        Sleep 2000
        Closing = SendUntilAnswered("GET", "/closings/" & Field(Closing, "id"), "", "")
    Loop
    CloseDay = Field(Closing, "state")
End Function
