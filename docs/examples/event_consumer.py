"""Stores the events of tillbridge in SQLite: python3 event_consumer.py events.db
A crash loses no event and stores none twice: an event is committed after it is stored, and stored once by its id."""
import json
import os
import socket
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import quote

URL, KEY = os.environ['TILLBRIDGE_URL'], os.environ['TILLBRIDGE_KEY']
CONSUMER = '/events/feed/consumers/erp?reader=' + quote(socket.gethostname())


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {'x-api-token': KEY, 'content-type': 'application/json'}
    while True:
        try:
            request = urllib.request.Request(URL + path, data, headers, method=method)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:  # 409 with retry-after: another reader is at work
            if error.code < 500 and 'retry-after' not in error.headers:
                raise SystemExit(error.read().decode()) from error
            time.sleep(float(error.headers.get('retry-after', 2)))
        except OSError:  # the service cannot be reached
            time.sleep(2)


db = sqlite3.connect(sys.argv[1])
db.execute('create table if not exists events (id text primary key, type text, order_id text, body text)')
call('POST', '/events/feed/consumers', {'name': 'erp', 'from': 'beginning'})
while True:
    page = call('GET', '/events/feed?wait=30&consumer=erp&reader=' + quote(socket.gethostname()))
    with db:  # one transaction: put your own rows here
        for event in page['events']:
            row = (event['id'], event['type'], event['order_id'], json.dumps(event))
            db.execute('insert or ignore into events values (?, ?, ?, ?)', row)
    if page['events']:
        call('POST', CONSUMER, {'after': page['next']})
