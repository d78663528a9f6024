* A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. Visual FoxPro 9, WinHttp of Windows 7 SP1 or later.
* NOT RUN: Visual FoxPro needs Windows. A test compares its steps, paths, headers and fields with those that the Python till sent.
*
*   DO till                                   && once: declares what it calls of Windows
*   SET PROCEDURE TO till ADDITIVE
*   ? till_charge("0001-00004711", 1234.50)   && .T.: charged. The same call again repeats what was sent
*   ? till_cancel("0001-00004711")
*   ? till_refund("0001-00004711", 234.50)    && 0: all that is left
*   till_resume()                             && at each start of the till: finishes what a crash left
*   ? till_close_day({^2026-11-21}, "credit_card=182340,50;debit_card=90210,00")
*
* TILLBRIDGE_URL, TILLBRIDGE_KEY and TILLBRIDGE_BOX come from the environment. Errors are raised with ERROR: use TRY … CATCH.
#DEFINE TILL_TRIES 10
DECLARE Sleep IN kernel32 INTEGER
DECLARE INTEGER CoCreateGuid IN ole32 STRING @
DECLARE INTEGER StringFromGUID2 IN ole32 STRING, STRING @, INTEGER
RETURN

* ---- The till's memory: a table. FLUSH FORCE writes it to the disk, so that it survives a power cut.
PROCEDURE till_open(tcTicket)
  IF NOT FILE("till_sales.dbf")
    CREATE TABLE till_sales FREE (ticket C(64), key C(36), body M, order_id C(36), outcome C(12), retry C(14), ;
      again L, rkey C(36), rbody M)
    INDEX ON ticket TAG ticket
    USE
  ENDIF
  IF NOT USED("till_sales")
    USE till_sales SHARED ORDER ticket IN 0
  ENDIF
  SELECT till_sales
  RETURN SEEK(PADR(tcTicket, 64), "till_sales", "ticket")

PROCEDURE till_keep(tcField, tvValue)
  REPLACE (tcField) WITH tvValue IN till_sales
  FLUSH IN till_sales FORCE

* ---- Text and JSON
PROCEDURE till_guid
  LOCAL lcRaw, lcText
  lcRaw = SPACE(16)
  lcText = SPACE(78)
  CoCreateGuid(@lcRaw)
  StringFromGUID2(lcRaw, @lcText, 39)
  RETURN LOWER(SUBSTR(STRCONV(LEFT(lcText, 76), 6), 2, 36))

* "1234,50", whatever SET POINT and SET SEPARATOR say.
PROCEDURE till_amount(tnAmount)
  LOCAL lnCents
  lnCents = ROUND(tnAmount * 100, 0)
  RETURN TRANSFORM(INT(lnCents / 100)) + "," + PADL(TRANSFORM(INT(MOD(lnCents, 100))), 2, "0")

PROCEDURE till_quote(tcText)
  RETURN '"' + STRTRAN(STRTRAN(ALLTRIM(tcText), "\", "\\"), '"', '\"') + '"'

* The value of a field of the outermost object: text without its quotes, or the JSON of an object; "" where it is absent or null.
PROCEDURE till_field(tcJson, tcName)
  LOCAL lnAt, lnDepth, lnFrom, lnEnd, lcChar, lcWord, lnLength
  lnLength = LEN(tcJson)
  lnDepth = 0
  lnAt = 1
  DO WHILE lnAt <= lnLength
    lcChar = SUBSTR(tcJson, lnAt, 1)
    DO CASE
    CASE lcChar = '"'
      lnEnd = till_string_end(tcJson, lnAt)
      lcWord = SUBSTR(tcJson, lnAt + 1, lnEnd - lnAt - 1)
      IF lnDepth = 1 AND lcWord == tcName AND SUBSTR(tcJson, lnEnd + 1, 1) = ":"
        RETURN till_value(tcJson, lnEnd + 2)
      ENDIF
      lnAt = lnEnd
    CASE lcChar $ "{["
      lnDepth = lnDepth + 1
    CASE lcChar $ "}]"
      lnDepth = lnDepth - 1
    ENDCASE
    lnAt = lnAt + 1
  ENDDO
  RETURN ""

PROCEDURE till_string_end(tcJson, tnFrom)
  LOCAL lnAt
  lnAt = tnFrom + 1
  DO WHILE lnAt < LEN(tcJson) AND SUBSTR(tcJson, lnAt, 1) # '"'
    lnAt = lnAt + IIF(SUBSTR(tcJson, lnAt, 1) = "\", 2, 1)
  ENDDO
  RETURN lnAt

PROCEDURE till_value(tcJson, tnFrom)
  LOCAL lnAt, lnDepth, lcChar
  IF SUBSTR(tcJson, tnFrom, 1) = '"'
    lcChar = SUBSTR(tcJson, tnFrom + 1, till_string_end(tcJson, tnFrom) - tnFrom - 1)
    RETURN STRTRAN(STRTRAN(lcChar, '\"', '"'), "\\", "\")
  ENDIF
  lnDepth = 0
  FOR lnAt = tnFrom TO LEN(tcJson)
    lcChar = SUBSTR(tcJson, lnAt, 1)
    DO CASE
    CASE lcChar = '"'
      lnAt = till_string_end(tcJson, lnAt)
    CASE lcChar $ "{["
      lnDepth = lnDepth + 1
    CASE lnDepth = 0 AND lcChar $ ",}]"
      EXIT
    CASE lcChar $ "}]"
      lnDepth = lnDepth - 1
    ENDCASE
  ENDFOR
  lcChar = SUBSTR(tcJson, tnFrom, lnAt - tnFrom)
  RETURN IIF(lcChar == "null", "", lcChar)

* ---- One request. The status; 0: no answer came, or none that can be read.
PROCEDURE till_request(tcMethod, tcPath, tcBody, tcKey, tcAnswer, tnSeconds)
  LOCAL loHttp, lnStatus, lcUrl
  lnStatus = 0
  tnSeconds = 1
  lcUrl = EVL(GETENV("TILLBRIDGE_URL"), "http://127.0.0.1:3000")
  TRY
    loHttp = CREATEOBJECT("WinHttp.WinHttpRequest.5.1")
    loHttp.SetTimeouts(5000, 5000, 30000, 40000)
    loHttp.Option(9) = 2048 && WinHttpRequestOption_SecureProtocols: TLS 1.2
    loHttp.Open(tcMethod, lcUrl + tcPath, .F.)
    loHttp.SetRequestHeader("x-api-token", GETENV("TILLBRIDGE_KEY"))
    loHttp.SetRequestHeader("accept-language", "es")
    IF NOT EMPTY(tcKey)
      loHttp.SetRequestHeader("idempotency-key", ALLTRIM(tcKey))
    ENDIF
    IF EMPTY(tcBody)
      loHttp.Send()
    ELSE
      loHttp.SetRequestHeader("content-type", "application/json; charset=utf-8")
      loHttp.Send(CREATEBINARY(STRCONV(tcBody, 9))) && UTF-8, as bytes
    ENDIF
    tcAnswer = STRCONV(loHttp.ResponseBody, 11) && from UTF-8
    IF LEFT(tcAnswer, 1) = "{"
      lnStatus = loHttp.Status
    ENDIF
    IF "retry-after:" $ LOWER(loHttp.GetAllResponseHeaders())
      tnSeconds = MAX(1, VAL(loHttp.GetResponseHeader("retry-after")))
    ENDIF
  CATCH
    lnStatus = 0
  ENDTRY
  RETURN lnStatus

* Repeats the same request with the same key after a lost answer and after retry = same_request. The answer; raises an error for
* one that the same request does not mend: pcTill_refused is that answer.
PROCEDURE till_send_until_answered(tcMethod, tcPath, tcBody, tcKey)
  LOCAL lnTry, lnStatus, lcAnswer, lnSeconds, lcRetry
  PUBLIC pcTill_refused
  pcTill_refused = ""
  FOR lnTry = 1 TO TILL_TRIES
    lcAnswer = ""
    lnSeconds = 1
    lnStatus = till_request(tcMethod, tcPath, tcBody, tcKey, @lcAnswer, @lnSeconds)
    IF lnStatus > 0 AND lnStatus < 400
      RETURN lcAnswer
    ENDIF
    IF lnStatus > 0
      * Errors of requests that move no money have no retry: their status decides.
      lcRetry = EVL(till_field(lcAnswer, "retry"), IIF(INLIST(lnStatus, 408, 429, 503, 504), "same_request", "after_change"))
      IF NOT lcRetry == "same_request"
        pcTill_refused = lcAnswer
        ERROR till_field(lcAnswer, "code") + ": " + till_field(lcAnswer, "error")
      ENDIF
    ENDIF
    Sleep(lnSeconds * 1000)
  ENDFOR
  ERROR "No answer yet: send it again"

PROCEDURE till_show_cashier(tcAnswer)
  LOCAL lcText
  lcText = till_field(till_field(tcAnswer, "cashier"), "message")
  WAIT WINDOW EVL(lcText, till_field(tcAnswer, "error")) NOWAIT

* ---- The steps
PROCEDURE till_charge(tcTicket, tnAmount)
  LOCAL lcBody, lcBox, llFailed, llNew
  lcBox = EVL(GETENV("TILLBRIDGE_BOX"), "CAJA-1")
  lcBody = '{"caja_id":' + till_quote(lcBox) + ',"external_reference":' + till_quote(tcTicket) + ;
    ',"amount":"' + till_amount(tnAmount) + '"}'
  llNew = NOT till_open(tcTicket)
  IF NOT llNew
    llFailed = ALLTRIM(outcome) == "not_charged" AND IIF(EMPTY(order_id), NOT body == lcBody, again)
    IF NOT body == lcBody AND NOT llFailed
      ERROR "This ticket was sent with other content. Finish that charge first."
    ENDIF
  ENDIF
  * Stored before it is sent: whatever happens from here on, the same key is sent again.
  DO CASE
  CASE llNew
    INSERT INTO till_sales (ticket, key, body, outcome) VALUES (tcTicket, till_guid(), lcBody, "unknown")
  CASE llFailed
    REPLACE key WITH till_guid(), body WITH lcBody, order_id WITH "", outcome WITH "unknown", again WITH .F. IN till_sales
  ENDCASE
  FLUSH IN till_sales FORCE
  till_send_charge(tcTicket)
  RETURN till_wait_for_end(tcTicket) == "charged"

PROCEDURE till_send_charge(tcTicket)
  LOCAL lcAnswer, loError
  till_open(tcTicket)
  IF ALLTRIM(retry) == "no" AND ALLTRIM(outcome) == "unknown"
    ERROR "Look for the order before you charge again."
  ENDIF
  TRY
    lcAnswer = till_send_until_answered("POST", "/orders", body, key)
  CATCH TO loError
    lcAnswer = pcTill_refused
    IF NOT EMPTY(lcAnswer)
      till_keep("outcome", till_field(lcAnswer, "outcome"))
      till_keep("retry", till_field(lcAnswer, "retry"))
      till_show_cashier(lcAnswer)
    ENDIF
    * ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
    IF NOT till_field(lcAnswer, "outcome") == "charged" OR EMPTY(till_field(lcAnswer, "order_id"))
      THROW loError
    ENDIF
  ENDTRY
  till_keep("order_id", till_field(lcAnswer, "order_id"))
  till_keep("outcome", till_field(lcAnswer, "outcome"))
  till_keep("retry", "")

PROCEDURE till_wait_for_end(tcTicket)
  LOCAL lcPath, lcOrder
  till_open(tcTicket)
  lcPath = "/orders/" + ALLTRIM(order_id)
  lcOrder = till_send_until_answered("GET", lcPath, "", "")
  till_show_cashier(lcOrder)
  DO WHILE till_field(lcOrder, "outcome") == "unknown" AND EMPTY(till_field(lcOrder, "needs_decision")) ;
      AND EMPTY(till_field(lcOrder, "settled"))
    Sleep(200)
    lcOrder = till_send_until_answered("GET", lcPath + "?wait=30&version=" + till_field(lcOrder, "version"), "", "")
    till_show_cashier(lcOrder)
  ENDDO
  till_keep("again", till_field(lcOrder, "retry_safe") == "true")
  till_keep("outcome", till_field(lcOrder, "outcome"))
  RETURN till_field(lcOrder, "outcome")

PROCEDURE till_cancel(tcTicket)
  LOCAL loError
  IF till_open(tcTicket) AND EMPTY(order_id)
    till_send_charge(tcTicket)
  ENDIF
  TRY
    till_send_until_answered("POST", "/orders/cancel", '{"order_id":' + till_quote(order_id) + '}', "")
  CATCH TO loError
    * ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
    IF EMPTY(pcTill_refused)
      THROW loError
    ENDIF
    till_show_cashier(pcTill_refused)
  ENDTRY
  RETURN till_wait_for_end(tcTicket) == "not_charged"

PROCEDURE till_refund(tcTicket, tnAmount)
  LOCAL loError
  till_open(tcTicket)
  * A refund that got no answer is repeated before any other.
  IF EMPTY(rbody)
    REPLACE rkey WITH till_guid(), rbody WITH '{"order_id":' + till_quote(order_id) + ;
      IIF(EMPTY(tnAmount), "", ',"amount":"' + till_amount(EVL(tnAmount, 0)) + '"') + '}' IN till_sales
    FLUSH IN till_sales FORCE
  ELSE
    WAIT WINDOW "The refund of before is sent again, and no other" NOWAIT
  ENDIF
  TRY
    till_send_until_answered("POST", "/orders/refund", rbody, rkey)
  CATCH TO loError
    IF NOT EMPTY(pcTill_refused) AND NOT till_field(pcTill_refused, "outcome") == "unknown"
      till_keep("rbody", "")
    ENDIF
    THROW loError
  ENDTRY
  till_keep("rbody", "")
  RETURN till_wait_for_end(tcTicket)

PROCEDURE till_resume
  LOCAL laOpen[1], lnAt
  till_open("")
  SELECT ticket, NOT EMPTY(rbody) FROM till_sales WHERE ALLTRIM(outcome) == "unknown" OR NOT EMPTY(rbody) INTO ARRAY laOpen
  FOR lnAt = 1 TO _TALLY
    IF laOpen[lnAt, 2]
      till_refund(laOpen[lnAt, 1], 0)
    ELSE
      till_send_charge(laOpen[lnAt, 1])
      till_wait_for_end(laOpen[lnAt, 1])
    ENDIF
  ENDFOR

PROCEDURE till_close_day(tdDay, tcCounted)
  LOCAL lcBody, lcOne, lnAt, lcClosing, lcDeclared
  lcDeclared = ""
  FOR lnAt = 1 TO GETWORDCOUNT(tcCounted, ";")
    lcOne = GETWORDNUM(tcCounted, lnAt, ";")
    lcDeclared = lcDeclared + IIF(lnAt = 1, "", ",") + till_quote(GETWORDNUM(lcOne, 1, "=")) + ":" + till_quote(GETWORDNUM(lcOne, 2, "="))
  ENDFOR
  lcBody = '{"caja_id":' + till_quote(EVL(GETENV("TILLBRIDGE_BOX"), "CAJA-1")) + ',"business_day":"' + ;
    TRANSFORM(DTOS(tdDay), "@R 9999-99-99") + '","declared":{' + lcDeclared + '}}'
  lcClosing = till_send_until_answered("POST", "/closings", lcBody, "")
  DO WHILE INLIST(till_field(lcClosing, "state"), "open", "checking")
    Sleep(2000)
    lcClosing = till_send_until_answered("GET", "/closings/" + till_field(lcClosing, "id"), "", "")
  ENDDO
  RETURN till_field(lcClosing, "state")
