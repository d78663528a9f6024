"""Stores events that tillbridge sends: python3 event_receiver.py events.db 8099
An event is stored once by its id, and answered after it is stored. A message without a valid signature is refused."""
import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.b64decode(os.environ['ENDPOINT_SECRET'].removeprefix('whsec_'))
LATE_S = 300  # an older message may be a copy that an attacker sends again


def is_genuine(headers, body):
    id_, sent_at = headers.get('webhook-id', ''), headers.get('webhook-timestamp', '')
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > LATE_S:
        return False
    text = f'{id_}.{sent_at}.'.encode() + body
    mine = 'v1,' + base64.b64encode(hmac.new(KEY, text, hashlib.sha256).digest()).decode()
    given = headers.get('webhook-signature', '').split(' ')  # two while the secret is exchanged
    return any(hmac.compare_digest(mine.encode(), one.encode()) for one in given)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('content-length', 0)))
        if not is_genuine(self.headers, body):
            return self.answer(401)
        event = json.loads(body)
        if event['type'] != 'ping':
            with db:  # one transaction: put your own rows here
                row = (event['id'], event['type'], event['order_id'], body.decode())
                db.execute('insert or ignore into events values (?, ?, ?, ?)', row)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


db = sqlite3.connect(sys.argv[1])
db.execute('create table if not exists events (id text primary key, type text, order_id text, body text)')
HTTPServer(('127.0.0.1', int(sys.argv[2])), Receiver).serve_forever()
