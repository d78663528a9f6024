import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { functionNames } from '../../src/flows/loading/rules-expressions.ts'
import { flowText, problemsOf } from './definition-support.ts'

const destinations = (...lines: string[]) => ['destinations:', ...lines].join('\n')
const file = '{ name: out, type: file, path: out.ndjson }'
const reference = `use \${env:NAME} or \${file:/path}`

const goodSftp = {
  type: 'sftp',
  url: 'sftp://erp@files.example.com:22',
  hostKey: `SHA256:${'a'.repeat(43)}`,
  password: `\${env:TOKEN}`,
  path: 'out/a.csv',
  format: 'csv',
}
/** As JSON, which is YAML. */
const sftp = (
  changed: Partial<Record<keyof typeof goodSftp | 'privateKey' | 'passphrase', string | undefined>>,
) => `source: ${JSON.stringify({ ...goodSftp, ...changed })}`

type Case = [what: string, parts: Parameters<typeof flowText>[0] | string, ...problems: string[]]

const cases: Case[] = [
  // The access to a destination.
  [
    'a refresh token with a renewal and without a value',
    {
      destinations: destinations(
        '  - name: out',
        '    type: http',
        '    request: { url: https://shop.example.com/items }',
        '    auth:',
        '      type: oauth2',
        '      grant: refresh_token',
        '      tokenUrl: https://shop.example.com/token',
        '      clientId: till',
        `      clientSecret: \${env:TOKEN}`,
      ),
    },
    `12:14 destinations[0].auth.grant: needs refreshToken: the one that the issuer gave with the authorization (add refreshToken: ${reference.slice(4)})`,
  ],
  [
    'a refresh token without a renewal',
    {
      destinations: destinations(
        '  - name: out',
        '    type: http',
        '    request: { url: https://shop.example.com/items }',
        '    auth:',
        '      type: oauth2',
        '      tokenUrl: https://shop.example.com/token',
        '      clientId: till',
        `      clientSecret: \${env:TOKEN}`,
        `      refreshToken: \${env:TOKEN}`,
      ),
    },
    '15:7 destinations[0].auth.refreshToken: has no effect without grant: refresh_token (add grant: refresh_token)',
  ],
  [
    'a refresh token in the file, and an unknown grant',
    {
      destinations: destinations(
        '  - name: out',
        '    type: http',
        '    request: { url: https://shop.example.com/items }',
        '    auth:',
        '      type: oauth2',
        '      grant: password',
        '      tokenUrl: https://shop.example.com/token',
        '      clientId: till',
        `      clientSecret: \${env:TOKEN}`,
        '      refreshToken: TG-canary-1',
      ),
    },
    '12:14 destinations[0].auth.grant: must be one of client_credentials, refresh_token',
    `16:21 destinations[0].auth.refreshToken: a secret must not be in the file (${reference})`,
  ],
  // The form of the file.
  ['nothing', '# a comment\n', '1:1 is empty (a flow file begins with version: 1 and name: …)'],
  [
    'a list',
    '- a\n',
    '1:1 is not a group of keys (a flow file begins with version: 1 and name: …)',
  ],
  ['a missing key', { pollInterval: '' }, '1:1 pollInterval: is missing'],
  ['a missing version', { version: '' }, '2:1 version: is missing (write 1)'],
  ['a missing key below', { item: 'item: {}' }, '5:1 item.key: is missing'],
  [
    'a misspelt key',
    { pollInterval: 'poll_intervall: 60s' },
    '3:1 poll_intervall: is not a known key (did you mean pollInterval?)',
  ],
  [
    'a key at the wrong level',
    { more: 'timeout: 30s' },
    '8:1 timeout: is not a known key (it belongs to source.limits)',
  ],
  [
    'an unknown key',
    { item: 'item: { key: a, xyzzy: 1 }' },
    '5:17 item.xyzzy: is not a known key (known here: key, hash, filter, onDefinitionChange)',
  ],
  [
    'a key of another kind of source',
    { source: 'source: { type: file, path: a, format: csv, query: select 1 }' },
    '4:45 source.query: is not a known key (known here: type, path, format, csv, fixed, xlsx, dbf, items, settle, ready, after, files, groupBy, limits, connection)',
  ],
  [
    'an empty value',
    { name: 'name:' },
    '2:1 name: must be a text, not nothing (give it a value, or leave the key out)',
  ],
  [
    'a number for a text',
    { name: 'name: 12' },
    '2:7 name: must be a text, not a number (put it in quotes)',
  ],
  [
    'a text for a number',
    { version: 'version: "1"' },
    '1:10 version: must be 1 (write 1, no quotes)',
  ],
  [
    'a text for a list',
    { item: 'item: { key: a, hash: { ignore: b } }' },
    '5:33 item.hash.ignore: must be a list, not a text (write [a, b], or a line with - for each entry)',
  ],
  [
    'a text for a switch',
    { more: 'startPaused: si' },
    '8:14 startPaused: must be true or false, not a text (write true or false, no quotes)',
  ],
  [
    'an unknown choice',
    { source: 'source: { type: fil }' },
    '4:17 source.type: must be one of sql, http, file, sftp, payments.orders, payments.settlements, payments.closings (did you mean file?)',
  ],
  [
    'an address of Firebird in a character set that is not read',
    {
      source:
        'source: { type: sql, driver: firebird, url: "firebird://bob@erp.example.com/C:/ERP/DATOS.FDB?charset=WIN9", query: select a from t }',
    },
    '4:45 source.url: is not an address for the driver firebird (for example firebird://user@host:3050/data/erp.fdb?charset=WIN1252)',
  ],
  [
    'an address of another driver',
    {
      source:
        'source: { type: sql, driver: mssql, url: "postgres://bob@erp.example.com/erp", query: select a from t }',
    },
    '4:30 source.driver: url is an address for the driver postgres, not for mssql (write driver: postgres)',
  ],
  [
    'a destination of a database that is only read',
    {
      destinations: destinations(
        '  - { name: out, type: sql, driver: firebird, url: "firebird://bob@erp.example.com/erp", table: t, upsertKey: a }',
      ),
    },
    '7:37 destinations[0].driver: must be one of postgres, mysql, mssql',
  ],
  [
    'a destination with the charset of a source',
    {
      destinations: destinations(
        '  - { name: out, type: sql, driver: postgres, url: "postgres://bob@erp.example.com/erp?charset=WIN1252", table: t, upsertKey: a }',
      ),
    },
    '7:52 destinations[0].url: charset works only at a source; texts are written in UTF-8 (leave charset out)',
  ],
  [
    'an SFTP server without its host key',
    { source: sftp({ hostKey: undefined }) },
    '4:1 source.hostKey: is missing',
  ],
  [
    'an SFTP server with its host key in another form',
    { source: sftp({ hostKey: 'MD5:aa:bb' }) },
    '4:74 source.hostKey: must be a fingerprint such as SHA256:uNiVztksCsDhcc0u9e8BrwJ2cb8x8nKmvtSrmPtDWMw; ssh-keyscan HOST | ssh-keygen -lf - shows it',
  ],
  [
    'an SFTP server without a login',
    { source: sftp({ password: undefined }) },
    '4:30 source.url: has no password and no privateKey (add password or privateKey, as a reference)',
  ],
  [
    'a password in the file',
    { source: sftp({ password: 'canary-plain' }) },
    `4:138 source.password: a secret must not be in the file (${reference})`,
  ],
  [
    'a password in the address',
    { source: sftp({ url: `sftp://erp:\${env:TOKEN}@files.example.com` }) },
    '4:30 source.url: must not hold a password (give it as source.password)',
  ],
  [
    'an address with more than a server',
    { source: sftp({ url: 'sftp://erp@files.example.com/out' }) },
    '4:30 source.url: holds more than user, host and port (write the path in source.path)',
  ],
  [
    'an address of another kind',
    { source: sftp({ url: 'https://erp@files.example.com' }) },
    '4:30 source.url: is not an address of an SFTP server with a user (for example sftp://user@files.example.com:22)',
  ],
  [
    'an SFTP server on a private network',
    { source: sftp({ url: 'sftp://erp@192.168.1.9:2222' }) },
    '4:30 source.url: is on a private network, which this flow may not call (write allowPrivateNetwork: true at the top of the file, or in the connection)',
  ],
  [
    'an SFTP server that is a metadata service',
    { source: sftp({ url: 'sftp://erp@169.254.169.254:2222' }), more: 'allowPrivateNetwork: true' },
    '4:30 source.url: is link-local or a metadata service, which is never called',
  ],
  [
    'a public key, or another text, for a private one',
    { source: sftp({ password: undefined, privateKey: `\${env:TOKEN}` }) },
    '4:174 source.privateKey: is not a private key (the whole file of the key: id_ed25519, not id_ed25519.pub)',
  ],
  [
    'a passphrase without a key',
    { source: sftp({ passphrase: `\${env:TOKEN}` }) },
    '4:200 source.passphrase: is of a privateKey',
  ],
  [
    'a folder, and a pattern of folders, for files of a server',
    { source: sftp({ path: 'out/' }) },
    '4:160 source.path: is a folder (for example /out/*.csv)',
  ],
  [
    'a pattern of folders of a server',
    { source: sftp({ path: '*/a.csv' }) },
    '4:160 source.path: has a * in its folder; it can only be in the name of the file (make a flow for each folder)',
  ],
  [
    'no choice',
    { destinations: destinations('  - name: out') },
    '7:5 destinations[0].type: is missing (one of payments.stores, payments.pos, http, sql, file)',
  ],
  [
    'no destination',
    { destinations: 'destinations: []' },
    '6:15 destinations: must have at least 1 entry',
  ],
  [
    'a number out of range',
    { destinations: destinations('  - { name: a, type: file, path: a, concurrency: 100 }') },
    '7:50 destinations[0].concurrency: must be a whole number from 1 to 64',
  ],
  [
    'a misspelt key inside one of several forms',
    { destinations: destinations('  - { name: a, type: file, path: a, breaker: { failurs: 3 } }') },
    '7:48 destinations[0].breaker.failurs: is not a known key (did you mean failures?)',
  ],
  [
    'a misspelt key inside a field rule',
    {
      destinations: destinations('  - { name: a, type: file, path: a, fields: { b: { frm: c } } }'),
    },
    '7:52 destinations[0].fields.b.frm: is not a known key (did you mean from?)',
  ],
  [
    'a header name',
    { source: 'source: { type: http, url: "https://a.example", headers: { "x y": z } }' },
    '4:60 source.headers."x y": must be the name of a header',
  ],
  // Durations.
  [
    'seconds as a number',
    { pollInterval: 'pollInterval: 60' },
    '3:15 pollInterval: must be a duration from 1s to 24h (a number is milliseconds; write 60s)',
  ],
  [
    'a unit in words',
    { pollInterval: 'pollInterval: 5 minutos' },
    '3:15 pollInterval: must be a duration from 1s to 24h (for example 1s)',
  ],
  [
    'a duration out of range',
    { pollInterval: 'pollInterval: 3d' },
    '3:15 pollInterval: must be a duration from 1s to 24h (for example 1s)',
  ],
  [
    'no duration at all',
    { pollInterval: 'pollInterval: often' },
    '3:15 pollInterval: must be a duration from 1s to 24h (for example 1s)',
  ],
  // Secrets.
  [
    'a password in an address',
    { source: 'source: { type: sql, driver: mysql, url: mysql://a:hunter2@b/c, query: select 1 }' },
    `4:42 source.url: a password, key or token must not be in the file (${reference})`,
  ],
  [
    'a token in a header',
    {
      source:
        'source: { type: http, url: "https://a.example", headers: { authorization: Bearer hunter2 } }',
    },
    `4:75 source.headers.authorization: the value of authorization must not be in the file (write the secret part as a reference, such as "Bearer \${env:NAME}")`,
  ],
  [
    'a Slack address',
    { more: 'alerts: { onJobFailed: [{ type: slack, url: "https://hooks.slack.com/hunter2" }] }' },
    `8:45 alerts.onJobFailed[0].url: a secret must not be in the file (${reference})`,
  ],
  [
    'an unset variable',
    { source: `source: { type: http, url: "\${env:ERP_ADRESS}" }` },
    '4:28 source.url: the environment variable ERP_ADRESS is not set (set ERP_ADRESS)',
  ],
  [
    'an unreadable file',
    { source: `source: { type: http, url: "\${file:/run/secrets/erp}" }` },
    '4:28 source.url: the file /run/secrets/erp cannot be read (name a readable text file that holds nothing but the secret)',
  ],
  [
    'an unknown kind of reference',
    { source: `source: { type: http, url: "\${ERP_URL}" }` },
    `4:28 source.url: \${ERP_URL} is not a known reference (use \${env:ERP_URL} or \${file:/path})`,
  ],
  // Expressions.
  [
    'a filter on one line',
    { item: "item: { key: a, filter: '$exists(lat' }" },
    '5:25 item.filter: is not JSONata: Expected ")" before end of expression (column 12 of the expression)',
  ],
  [
    'a map on several lines',
    {
      destinations: destinations(
        '  - name: a',
        '    type: file',
        '    path: a',
        '    map: |',
        '',
        '      { "a": b,',
        '        "c": ] }',
      ),
    },
    '10:10 destinations[0].map: is not JSONata: The symbol "]" cannot be used as a unary operator (line 3, column 9 of the expression)',
  ],
  [
    'a folded filter',
    { item: 'item:\n  key: a\n  filter: >-\n    a and\n    (b' },
    '7:11 item.filter: is not JSONata: Expected ")" before end of expression (column 9 of the expression)',
  ],
  [
    'a next page',
    {
      source:
        'source: { type: http, url: "https://a.example", paging: { type: cursor, next: "a[" } }',
    },
    '4:79 source.paging.next: is not JSONata: Expected "]" before end of expression (column 3 of the expression)',
  ],
  [
    'unknown names in an expression',
    {
      destinations: destinations(
        '  - name: a',
        '    type: file',
        '    path: a',
        '    map: |',
        '      { "lat": $nubmer(lat),',
        '        "codigo": $codigo, "t": $eval("1") }',
      ),
    },
    '10:10 destinations[0].map: uses $nubmer, which is not known (line 1, column 10 of the expression) (did you mean $number?)',
    '10:10 destinations[0].map: uses $codigo, which is not known (line 2, column 13 of the expression) (a field of the item is written without $)',
    '10:10 destinations[0].map: uses $eval, which is not available here (line 2, column 27 of the expression)',
  ],
  // Destinations against each other and against the rest.
  [
    'names that clash',
    {
      destinations: destinations(
        `  - ${file}`,
        '  - { name: out, type: file, path: b }',
        '  - { name: source, type: file, path: c }',
      ),
    },
    '8:13 destinations[1].name: is the name of a destination above (choose another name)',
    '9:13 destinations[2].name: is reserved: errors of polls are shown as source (choose another name)',
  ],
  [
    'map and fields',
    {
      destinations: destinations('  - { name: a, type: file, path: a, map: b, fields: { c: d } }'),
    },
    '7:45 destinations[0].fields: is beside map; only one of them can make the body (keep map or fields)',
  ],
  [
    'no fields',
    { destinations: destinations('  - { name: a, type: file, path: a, fields: {} }') },
    '7:45 destinations[0].fields: names no field (name some, or leave fields out to send the item itself)',
  ],
  [
    'a key that is no field',
    {
      destinations: destinations(
        `  - { name: a, type: sql, driver: mysql, url: mysql://h/d, table: t, upsertKey: [id], fields: { ident: codigo } }`,
      ),
    },
    '7:82 destinations[0].upsertKey[0]: is not among the fields, so no row would have a key (add id to fields)',
  ],
  [
    'pauses',
    { destinations: destinations('  - { name: a, type: file, path: a, retry: { initial: 1h } }') },
    '7:44 destinations[0].retry: begins with a pause longer than its max (make max at least 3600s)',
  ],
  [
    'one file twice, and one that climbs',
    {
      destinations: destinations(
        `  - ${file}`,
        '  - { name: b, type: file, path: out.ndjson }',
        '  - { name: c, type: file, path: ../c }',
      ),
    },
    '8:34 destinations[1].path: is the file of a destination above; two cannot write one file (give it a file of its own)',
    '9:34 destinations[2].path: must not climb by .. (write the path from the root, or below the working directory)',
  ],
  [
    'a file whose name has another word in braces',
    { destinations: destinations('  - { name: a, type: file, path: "out/{date.ndjson" }') },
    '7:34 destinations[0].path: out/{date.ndjson is not a placeholder here (there are {date})',
  ],
  [
    'hosts that an item or a position would choose, and a batch to the address of one item',
    {
      source: 'source: { type: http, url: "https://{cursor}.example/", cursor: { field: at } }',
      destinations: destinations(
        '  - { name: a, type: http, request: { url: "https://{pk}.example/" } }',
        '  - { name: b, type: http, request: { url: "https://b.example/{pk}" }, batch: { size: 2 } }',
      ),
    },
    '4:28 source.url: has a host that depends on the item (placeholders belong to the path or the query)',
    '7:44 destinations[0].request.url: has a host that depends on the item (placeholders belong to the path or the query)',
    '8:79 destinations[1].batch: needs a request of its own: the address of the single one depends on the item (add request: { url: https://… })',
  ],
  [
    'deletes that no destination can do',
    {
      destinations: destinations(
        '  - { name: a, type: http, request: { url: "https://a.example/{pk}" } }',
        '  - { name: b, type: payments.stores, client: acme }',
      ),
      more: 'deletes: { mode: delete }',
    },
    '7:5 destinations[0]: needs delete, because deletes.mode is delete (add delete: { url: https://…/{pk} }, or write deletes: { mode: ignore })',
    '8:5 destinations[1]: would refuse every delete: a store that is deleted at Mercado Pago is gone (write allowStoreDelete: true if that is meant, or deletes: { mode: ignore })',
  ],
  [
    'deletes of orders',
    { source: 'source: { type: payments.orders }', more: 'deletes: { mode: delete }' },
    '8:18 deletes.mode: cannot be delete with payments.orders: orders never vanish (write ignore)',
  ],
  // Addresses.
  [
    'private addresses',
    {
      source: `source: { type: http, url: "http://\${env:PRIVATE_HOST}/" }`,
      destinations: destinations(
        '  - { name: a, type: http, request: { url: "http://localhost:8080/{pk}" } }',
      ),
    },
    '4:28 source.url: is on a private network, which this flow may not call (write allowPrivateNetwork: true at the top of the file, or in the connection)',
    '7:44 destinations[0].request.url: is on a private network, which this flow may not call (write allowPrivateNetwork: true at the top of the file, or in the connection)',
  ],
  [
    'a metadata service, opened or not',
    {
      more: 'allowPrivateNetwork: true\nalerts: { onJobFailed: [{ type: webhook, url: "http://169.254.169.254/" }] }',
    },
    '9:47 alerts.onJobFailed[0].url: is link-local or a metadata service, which is never called',
  ],
  [
    'a path that climbs',
    { source: 'source: { type: http, url: "https://a.example/b/../c" }' },
    '4:28 source.url: has . or .. in its path (write the path that is meant)',
  ],
  [
    'folders by pattern',
    { source: 'source: { type: file, path: "erp/*/a.csv", format: csv }' },
    '4:29 source.path: has a * in its folder; it can only be in the name of the file (make a flow for each folder)',
  ],
  [
    'a host made of the key',
    {
      destinations: destinations(
        '  - { name: a, type: http, request: { url: "https://{pk}.example.com/" } }',
      ),
    },
    '7:44 destinations[0].request.url: has a host that depends on the item (placeholders belong to the path or the query)',
  ],
  // Alerts.
  [
    'mail alerts without a mail server, and for an unknown destination',
    {
      more: 'alerts:\n  onJobFailed:\n    - { type: email, to: a@b.example, destinations: [outt] }',
    },
    '10:15 alerts.onJobFailed[0].type: mail needs the environment variable SMTP_URL (set SMTP_URL)',
    '10:15 alerts.onJobFailed[0].type: mail needs the environment variable MAIL_FROM (set MAIL_FROM)',
    '10:54 alerts.onJobFailed[0].destinations[0]: is not the name of a destination of this flow (did you mean out?)',
  ],
  // Sources.
  [
    'a cursor that the query does not use, with an overlap of nothing',
    {
      source:
        'source:\n  type: sql\n  driver: postgres\n  url: postgres://h/d\n  query: select * from a -- :cursor\n  cursor: { field: n, initial: 5, overlap: 3m }',
    },
    '8:10 source.query: does not use :cursor, so the cursor would have no effect (for example where changed_at >= :cursor; or leave source.cursor out)',
    '9:44 source.cursor.overlap: is a time, so it works only with a cursor that is one; initial is not (leave overlap out, or make initial a time such as "1970-01-01T00:00:00Z")',
  ],
  [
    'parameters without a value',
    {
      source:
        "source:\n  type: sql\n  driver: mssql\n  url: mssql://h/d\n  query: |\n    select ':a' from b\n    where c > :cursor and d = :today\n  itemQuery: select 1",
    },
    '8:10 source.query: has the parameter :cursor, which has no value (add source.cursor: { field: … })',
    "8:10 source.query: has the parameter :today, which has no value (known here: none; write a colon that is none as text: ':')",
    '11:14 source.itemQuery: does not say which item: it needs :pk (for example where codigo = :pk)',
  ],
  [
    'a composite key compared as one',
    {
      source:
        'source: { type: sql, driver: mysql, url: mysql://h/d, query: select 1, itemQuery: "select 1 where a = :pk" }',
      item: 'item: { key: [a, b] }',
    },
    '4:83 source.itemQuery: compares :pk, which is all fields of item.key joined by a pipe (compare them one by one: a = :key_1 and b = :key_2)',
  ],
  [
    'an http cursor that the address does not use',
    {
      source:
        'source: { type: http, url: "https://a.example", cursor: { field: a }, item: { url: "https://a.example/x" } }',
    },
    '4:28 source.url: does not use {cursor}, so the cursor would have no effect (for example ?changed_since={cursor}; or leave source.cursor out)',
    '4:84 source.item.url: does not say which item: it needs {pk} (for example https://erp.example.com/api/products/{pk})',
  ],
  [
    'an http address with a cursor that is none',
    { source: 'source: { type: http, url: "https://a.example/?x={cursor}" }' },
    '4:28 source.url: holds {cursor}, but the source has no cursor (add source.cursor: { field: … })',
  ],
  [
    'lists that hold the key',
    {
      source:
        'source: { type: file, path: a, format: csv, groupBy: { children: { codigo: [a], cajas: [b, codigo] } } }',
    },
    '4:68 source.groupBy.children.codigo: is a field of item.key, so it cannot be a list (give the list another name)',
    '4:92 source.groupBy.children.cajas[1]: is a field of item.key: every record would be an item of its own (name here only what differs between the records of one item)',
  ],
  [
    'no lists',
    { source: 'source: { type: file, path: a, format: csv, groupBy: { children: {} } }' },
    '4:66 source.groupBy.children: names no list (write the name of the list and its columns: { cajas: [caja, caja_nombre] })',
  ],
]

type Given = (typeof cases)[number][1]
const problemsIn = (given: Given) => problemsOf(typeof given === 'string' ? given : flowText(given))

test.each(cases)('%s', (_what, given, ...expected) => {
  expect(problemsIn(given)).toEqual(expected)
})

test('a fresh look-up needs its own "remember", and the request may use its values', () => {
  const problems = (fresh: string) =>
    problemsOf(
      flowText({
        destinations: [
          'destinations:',
          '  - name: web',
          '    type: http',
          '    find:',
          '      - { url: "https://x.example/s/{pk}", remember: { id: id } }',
          `      - { fresh: true, url: "https://x.example/i/{remembered.id}"${fresh} }`,
          '    request: { url: "https://x.example/i/{remembered.id}/{remembered.version}" }',
          '    remember: { id: id }',
        ].join('\n'),
      }),
    )
  expect(problems(", remember: { version: '$headers.etag' }")).toEqual([])
  expect(problems('').join('\n')).toMatch(/find: needs remember.*\n.*remembered\.version/)
})

test('no problem contains a secret, whether it is in the file or behind a reference', () => {
  const problems = cases.flatMap(([, given]) => problemsIn(given))
  expect(problems.length).toBeGreaterThanOrEqual(cases.length)
  expect(problems.join('\n')).not.toMatch(/hunter2|top-secret-value|192\.168/)
})

test('every function and variable of JSONata, and each that an expression defines, is known', async () => {
  const jsonata = await readFile(fileURLToPath(import.meta.resolve('jsonata')), 'utf8')
  const bound = [...jsonata.matchAll(/staticFrame\.bind\('(\w+)'/g)].map(([, name]) => String(name))
  expect(bound.length).toBeGreaterThan(50)
  const own = ['now', 'millis']
  expect([...functionNames].sort()).toEqual(
    [...bound.filter((name) => name !== 'eval'), ...own].sort(),
  )

  const filter = `(
    $twice := function($n) { $n * 2 };
    $sum($map(precios, $twice)) > 1 and cajas@$c.(nombres#$i.($i > 0 and $c.caja = $$.caja))
      and ($now() ~> $length) > 5 and $count($filter(a, function($v) { $v.x = $ })) = 0
  )`
  const item = `item:\n  key: a\n  filter: |\n    ${filter.replaceAll('\n', '\n    ')}`
  expect(problemsOf(flowText({ item }))).toEqual([])
})

test.each([
  ['postgres', 'select * from t where a >= :cursor order by a limit 100', 'limit', 'cursor'],
  ['mssql', 'select top 100 * from t where a >= :cursor', 'select top', 'cursor'],
  ['firebird', 'select first 10 a from t where a >= :cursor', 'select first', 'cursor'],
  ['mysql', 'select * from t limit 5', 'limit', 'deletes'],
  ['mysql', 'select * from t where a in (select b from u limit 5)', undefined, 'deletes'],
  ['mysql', 'select * from t limit 5', undefined, 'neither'],
] as const)('%s: %s may leave rows out: %s, with %s', (driver, query, word, what) => {
  const cursor = what === 'cursor' ? ', cursor: { field: a }' : ''
  const source = `source: { type: sql, driver: ${driver}, url: "${driver}://bob@erp.example.com/erp", query: "${query}"${cursor} }`
  const more = what === 'deletes' ? 'deletes: { mode: delete }' : ''
  const destinations =
    'destinations:\n  - { name: out, type: sql, driver: postgres, url: "postgres://h/d", table: t, upsertKey: codigo }'
  const found = problemsOf(flowText({ source, more, destinations })).filter((one) =>
    one.includes('a part of the rows'),
  )
  const loses = cursor ? 'the cursor would pass rows' : 'the rows'
  expect(found).toEqual(
    word === undefined
      ? []
      : [
          expect.stringContaining(
            `source.query: gives a part of the rows only (${word}), and ${loses} that it leaves out`,
          ),
        ],
  )
})

test.each([
  ['driver', 'PostgreSQL', 'did you mean postgres?'],
  ['driver', 'MySQL', 'did you mean mysql?'],
  ['driver', 'sqlite', undefined],
  ['format', 'xls', 'did you mean xlsx?'],
  ['encoding', 'utf-8', 'did you mean utf8?'],
  ['type', 'ftp', 'did you mean sftp?'],
])('the suggestion for %s: %s is the nearest valid word there', (key, word, hint) => {
  const sources: Record<string, string> = {
    driver: `{ type: sql, driver: ${word}, url: "http://h/d", query: select 1 }`,
    format: `{ type: file, path: a, format: ${word} }`,
    encoding: `{ type: file, path: a, format: csv, csv: { encoding: ${word} } }`,
    type: `{ type: ${word}, path: a }`,
  }
  const [found] = problemsOf(flowText({ source: `source: ${sources[key]}` }))
  const [, said] = /\((.*)\)$/.exec(found ?? '') ?? []
  expect(said).toBe(hint)
})
