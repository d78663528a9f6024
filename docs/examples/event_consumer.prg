* Stores the events of tillbridge in a table. Visual FoxPro 9, WinHttp of Windows 7 SP1 or later, with examples/till/till.prg.
* NOT RUN: Visual FoxPro needs Windows. A test compares its paths, headers and fields with those that the Python consumer sent.
*
*   DO event_consumer
*
* TILLBRIDGE_URL and TILLBRIDGE_KEY come from the environment.
* A crash loses no event and stores none twice: an event is committed after it is stored, and stored once by its id.
LOCAL lcReader, lcPage, lcEvents, lcEvent, lnAt
DO till && what it declares
SET PROCEDURE TO till ADDITIVE
lcReader = "reader=" + GETENV("COMPUTERNAME")
IF NOT FILE("erp_events.dbf")
  CREATE TABLE erp_events FREE (id C(36), type C(40), order_id C(36), body M)
  INDEX ON id TAG id
  USE
ENDIF
USE erp_events SHARED ORDER id IN 0
event_call("POST", "/events/feed/consumers", '{"name":"erp","from":"beginning"}')
DO WHILE .T.
  lcPage = event_call("GET", "/events/feed?wait=30&consumer=erp&" + lcReader, "")
  lcEvents = till_field(lcPage, "events")
  lnAt = 2
  DO WHILE SUBSTR(lcEvents, lnAt, 1) == "{"
    lcEvent = till_value(lcEvents, lnAt)
    lnAt = lnAt + LEN(lcEvent) + 1
    * Put your own rows here.
    IF NOT SEEK(PADR(till_field(lcEvent, "id"), 36), "erp_events", "id")
      INSERT INTO erp_events (id, type, order_id, body) VALUES (till_field(lcEvent, "id"), till_field(lcEvent, "type"), ;
        till_field(lcEvent, "order_id"), lcEvent)
    ENDIF
  ENDDO
  FLUSH IN erp_events FORCE
  IF lnAt > 2
    event_call("POST", "/events/feed/consumers/erp?" + lcReader, '{"after":' + till_quote(till_field(lcPage, "next")) + '}')
  ENDIF
ENDDO

* The answer. It waits while there is none, or another reader is at work.
PROCEDURE event_call(tcMethod, tcPath, tcBody)
  LOCAL lcAnswer, lnSeconds, lnStatus
  DO WHILE .T.
    lcAnswer = ""
    lnSeconds = 2
    lnStatus = till_request(tcMethod, tcPath, tcBody, "", @lcAnswer, @lnSeconds)
    DO CASE
    CASE BETWEEN(lnStatus, 200, 399)
      RETURN lcAnswer
    CASE BETWEEN(lnStatus, 400, 499) AND lnStatus # 429 AND NOT till_field(lcAnswer, "code") == "CONSUMER_BUSY"
      ERROR till_field(lcAnswer, "code") + ": " + till_field(lcAnswer, "error")
    ENDCASE
    Sleep(lnSeconds * 1000)
  ENDDO
