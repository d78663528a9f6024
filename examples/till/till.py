"""A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. Python 3.9 or later, nothing to install.

export TILLBRIDGE_URL=http://127.0.0.1:3000 TILLBRIDGE_KEY=mk_... TILLBRIDGE_BOX=CAJA-1
python3 till.py charge 0001-00004711 1234,50     charges the ticket; the same command again repeats what was sent
python3 till.py cancel 0001-00004711
python3 till.py refund 0001-00004711 [234,50]    without an amount: all that is left
python3 till.py resume                           at each start of the till: finishes what a crash left
python3 till.py close_day 2026-11-21 credit_card=182340,50 debit_card=90210,00

Ends with 0: done. 1: refused, or not charged. 2: no answer yet, send it again.
"""
import http.client
import json
import os
import sqlite3
import sys
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get('TILLBRIDGE_URL', 'http://127.0.0.1:3000')
BOX = os.environ.get('TILLBRIDGE_BOX', 'CAJA-1')
TRIES = 10

# The till's memory. It survives a crash and a power cut; a program of an ERP uses its own database.
db = sqlite3.connect(os.environ.get('TILL_FILE', 'till.db'), isolation_level=None)
db.row_factory = sqlite3.Row
db.execute('PRAGMA synchronous = FULL')
db.execute(
    """CREATE TABLE IF NOT EXISTS sales (ticket TEXT PRIMARY KEY, key TEXT, body TEXT, order_id TEXT,
       outcome TEXT, retry_safe INTEGER, retry TEXT, refund_key TEXT, refund_body TEXT)"""
)


class Refused(Exception):
    """An error that the same request does not mend; `answer` has code, outcome, retry."""

    def __init__(self, answer):
        super().__init__(f"{answer.get('code')}: {answer.get('error')}")
        self.answer = answer


class NoAnswer(Exception):
    """Not known yet. Send the same request with the same key later."""


def read_sale(ticket):
    return db.execute('SELECT * FROM sales WHERE ticket = ?', [ticket]).fetchone()


def keep(ticket, **columns):
    names = ', '.join(f'{name} = ?' for name in columns)
    db.execute(f'UPDATE sales SET {names} WHERE ticket = ?', [*columns.values(), ticket])


def request(method, path, body, key):
    """One request: status, seconds to wait, answer. None: no answer came, or none that can be read."""
    headers = {'x-api-token': os.environ['TILLBRIDGE_KEY'], 'accept-language': 'es'}
    if key:
        headers['idempotency-key'] = key
    if body:
        headers['content-type'] = 'application/json; charset=utf-8'
    sent = urllib.request.Request(URL + path, body and body.encode('utf-8'), headers, method=method)
    try:
        try:
            with urllib.request.urlopen(sent, timeout=40) as got:
                return got.status, 0, json.load(got)
        except urllib.error.HTTPError as error:
            return error.code, int(error.headers.get('retry-after') or 1), json.load(error)
    except (OSError, http.client.HTTPException, ValueError):
        return None


def send_until_answered(method, path, body=None, key=None):
    """Repeats the same request with the same key after a lost answer and after `retry: same_request`."""
    for _ in range(TRIES):
        answered = request(method, path, body, key)
        if answered is None:
            time.sleep(1)
            continue
        status, seconds, answer = answered
        if status < 400:
            return answer
        # Errors of requests that move no money have no `retry`: their status decides.
        again = 'same_request' if status in (408, 429, 503, 504) else 'after_change'
        if answer.get('retry', again) != 'same_request':
            raise Refused(answer)
        time.sleep(seconds)
    raise NoAnswer('no answer yet: send it again')


def show_cashier(answer):
    print((answer.get('cashier') or {}).get('message') or answer.get('error') or '', flush=True)


def charge(ticket, amount):
    body = json.dumps({'caja_id': BOX, 'external_reference': ticket, 'amount': amount})
    sale = read_sale(ticket)
    if sale is None:
        # Stored before it is sent: whatever happens from here on, the same key is sent again.
        values = [ticket, str(uuid.uuid4()), body, 'unknown', 0]
        db.execute('INSERT INTO sales (ticket, key, body, outcome, retry_safe) VALUES (?, ?, ?, ?, ?)', values)
    elif sale['outcome'] == 'not_charged' and (sale['retry_safe'] if sale['order_id'] else sale['body'] != body):
        # The order failed, or a refused request was corrected: a new charge.
        keep(ticket, key=str(uuid.uuid4()), body=body, order_id=None, outcome='unknown', retry_safe=0)
    elif sale['body'] != body:
        raise SystemExit('This ticket was sent with other content. Finish that charge first.')
    send_charge(ticket)
    return wait_for_end(ticket)


def send_charge(ticket):
    sale = read_sale(ticket)
    if sale['retry'] == 'no' and sale['outcome'] == 'unknown':
        raise SystemExit('Look for the order before you charge again.')
    try:
        answer = send_until_answered('POST', '/orders', sale['body'], sale['key'])
    except Refused as refused:
        answer = refused.answer
        keep(ticket, outcome=answer['outcome'], retry=answer['retry'])
        # ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
        if answer['outcome'] != 'charged' or 'order_id' not in answer:
            raise
    keep(ticket, order_id=answer['order_id'], outcome=answer['outcome'], retry=None)


def wait_for_end(ticket):
    path = f"/orders/{read_sale(ticket)['order_id']}"
    order = send_until_answered('GET', path)
    show_cashier(order)
    # A person's decision ends the wait too: the outcome stays what Mercado Pago has proven.
    while order['outcome'] == 'unknown' and not (order.get('needs_decision') or order.get('settled')):
        time.sleep(0.2)
        order = send_until_answered('GET', f"{path}?wait=30&version={order['version']}")
        show_cashier(order)
    keep(ticket, outcome=order['outcome'], retry_safe=int(order['retry_safe']))
    return order


def cancel(ticket):
    if read_sale(ticket)['order_id'] is None:
        send_charge(ticket)
    try:
        body = json.dumps({'order_id': read_sale(ticket)['order_id']})
        send_until_answered('POST', '/orders/cancel', body)
    except Refused as refused:
        # ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
        show_cashier(refused.answer)
    return wait_for_end(ticket)


def refund(ticket, amount=None):
    sale = read_sale(ticket)
    if sale['refund_key'] is None:
        body = {'order_id': sale['order_id'], **({'amount': amount} if amount else {})}
        keep(ticket, refund_key=str(uuid.uuid4()), refund_body=json.dumps(body))
    else:
        print('The refund of before is sent again, and no other', flush=True)
    # A refund that got no answer is repeated before any other.
    sale = read_sale(ticket)
    try:
        send_until_answered('POST', '/orders/refund', sale['refund_body'], sale['refund_key'])
    except Refused as refused:
        if refused.answer['outcome'] != 'unknown':
            keep(ticket, refund_key=None)
        raise
    keep(ticket, refund_key=None)
    return wait_for_end(ticket)


def resume():
    for sale in db.execute("SELECT * FROM sales WHERE outcome = 'unknown' OR refund_key IS NOT NULL").fetchall():
        print(f"{sale['ticket']}:", flush=True)
        if sale['refund_key']:
            refund(sale['ticket'])
        else:
            charge(sale['ticket'], json.loads(sale['body'])['amount'])


def close_day(day, *counted):
    declared = dict(one.split('=') for one in counted)
    body = {'caja_id': BOX, 'business_day': day, 'declared': declared}
    closing = send_until_answered('POST', '/closings', json.dumps(body))
    while closing['state'] in ('open', 'checking'):
        time.sleep(2)
        closing = send_until_answered('GET', f"/closings/{closing['id']}")
    for line in closing.get('lines', []):
        print(line['kind'], line['message'])
    print(f"closing {closing['number']}: {closing['state']}")


if __name__ == '__main__':
    steps = {step.__name__: step for step in (charge, cancel, refund, resume, close_day)}
    if len(sys.argv) < 2 or sys.argv[1] not in steps:
        raise SystemExit(__doc__)
    try:
        order = steps[sys.argv[1]](*sys.argv[2:])
        if order:
            print(f"{order['external_reference']}: {order['outcome']}")
        sys.exit(1 if sys.argv[1] == 'charge' and order['outcome'] != 'charged' else 0)
    except Refused as refused:
        show_cashier(refused.answer)
        print(refused, file=sys.stderr)
        sys.exit(1)
    except NoAnswer as nothing:
        print(nothing, file=sys.stderr)
        sys.exit(2)
