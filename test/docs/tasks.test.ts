import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** A reader with a task starts at the README and needs at most two pages, one linked from the other. */
const docs = fileURLToPath(new URL('../../docs', import.meta.url))

const tasks: [task: string, pages: string[], steps: string[]][] = [
  [
    'charge from PowerShell',
    ['tutorials/first-charge.md', 'how-to/charge-from-an-erp.md'],
    ['/api-keys', 'Invoke-RestMethod', 'Idempotency-Key', 'retry: same_request'],
  ],
  [
    'send the stock of a SQL Server to Tiendanube',
    ['how-to/send-stock-to-a-shop.md'],
    ['tiendanube --from sql-table', 'mssql://', 'TIENDANUBE_TOKEN', '/dry-run', '/resume'],
  ],
  [
    'restore a backup',
    ['how-to/back-up-and-restore.md'],
    ['secrets', 'Stop the service', 'npm run restore', 'Start all processes'],
  ],
  [
    'connect a shop with real cards and its first terminal',
    ['how-to/connect-a-shop.md', 'how-to/pair-a-terminal.md'],
    ['MP_CLIENT_ID', '/admin/invitations', 'Make the key', 'operating_mode'],
  ],
  [
    'refund a part of a sale',
    ['how-to/refund.md'],
    ['/orders/refund', '"amount', 'retry: same_request', 'On the dashboard'],
  ],
  ['close a day and sign it', ['how-to/close-a-day.md'], ['/closings', 'declared', '/sign']],
  [
    'decide a charge in doubt',
    ['how-to/decide-an-unclear-charge.md'],
    ['/ask', '/settle', 'not_paid'],
  ],
  [
    'get a mail when a box is down',
    ['how-to/monitor.md', 'reference/settings.md'],
    ['ALERT_MAIL_TO', 'SMTP_URL', 'MAIL_FROM', '/admin/alerts/test'],
  ],
  [
    'replace the encryption key after a leak',
    ['how-to/rotate-secrets.md'],
    ['openssl rand', 'secrets:rotate', 'remove the old key'],
  ],
  [
    'install with systemd behind nginx',
    ['how-to/install.md', 'reference/settings.md'],
    ['systemctl', 'ops/nginx/tillbridge.conf', 'DATABASE_URL', 'TRUST_PROXY'],
  ],
]

function linksOf(page: string): string[] {
  const text = readFileSync(join(docs, page), 'utf8')
  return [...text.matchAll(/\]\(([^)#\s]+)/g)].map(([, to = '']) =>
    normalize(join(dirname(page), to)),
  )
}

test('there are ten tasks', () => {
  expect(tasks).toHaveLength(10)
})

test.each(tasks)('to %s, at most two pages are read', (_, pages, steps) => {
  expect(pages.length).toBeLessThanOrEqual(2)
  const [first = '', second] = pages
  expect(linksOf('README.md')).toContain(first)
  if (second !== undefined) expect(linksOf(first)).toContain(second)
  const text = pages.map((page) => readFileSync(join(docs, page), 'utf8')).join('\n')
  for (const step of steps) expect(text).toContain(step)
})
