// A complete till for tillbridge: the loop of docs/how-to/charge-from-an-erp.md. Node 24, with the package of clients/typescript.
//
//   export TILLBRIDGE_URL=http://127.0.0.1:3000 TILLBRIDGE_KEY=mk_... TILLBRIDGE_BOX=CAJA-1
//   node till.ts charge 0001-00004711 1234,50     charges the ticket; the same command again repeats what was sent
//   node till.ts cancel 0001-00004711
//   node till.ts refund 0001-00004711 [234,50]    without an amount: all that is left
//   node till.ts resume                           at each start of the till: finishes what a crash left
//   node till.ts close_day 2026-11-21 credit_card=182340,50 debit_card=90210,00
//
// Ends with 0: done. 1: refused, or not charged. 2: no answer yet, send it again.
import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import {
  type Charge,
  NoAnswerError,
  type Refund,
  TillbridgeClient,
  TillbridgeError,
} from 'tillbridge-client'

type Sale = {
  charge: Charge
  orderId?: string
  outcome?: string
  retrySafe?: boolean
  retry?: string
}
type Shown = { cashier?: { message: string } | undefined; message?: string }

// send_until_answered is the client's own: it repeats the same request with the same key.
const client = new TillbridgeClient({
  url: process.env.TILLBRIDGE_URL ?? 'http://127.0.0.1:3000',
  key: process.env.TILLBRIDGE_KEY ?? '',
  onRetry: show_cashier,
})
const box = process.env.TILLBRIDGE_BOX ?? 'CAJA-1'

// The till's memory. It survives a crash and a power cut; a program of an ERP uses its own database. Refunds have a row of
// their own, because a till cancels and waits at the same time.
const db = new DatabaseSync(process.env.TILL_FILE ?? 'till.db')
db.exec('PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000')
for (const table of ['sales', 'refunds'])
  db.exec(`CREATE TABLE IF NOT EXISTS ${table} (ticket TEXT PRIMARY KEY, json TEXT NOT NULL)`)

function read<T>(table: 'sales' | 'refunds', ticket: string): T | undefined {
  const row = db.prepare(`SELECT json FROM ${table} WHERE ticket = ?`).get(ticket)
  return row && JSON.parse(String(row.json))
}

function keep(table: 'sales' | 'refunds', ticket: string, value: Sale | Refund): void {
  db.prepare(`INSERT OR REPLACE INTO ${table} VALUES (?, ?)`).run(ticket, JSON.stringify(value))
}

function saleOf(ticket: string): Sale {
  const sale = read<Sale>('sales', ticket)
  if (!sale) throw new Error(`there is no ticket ${ticket}`)
  return sale
}

function show_cashier({ cashier, message }: Shown): void {
  console.log(cashier?.message ?? message)
}

async function charge(ticket: string, amount: string) {
  const before = read<Sale>('sales', ticket)
  const same = before?.charge.amount === amount
  const failed = before?.outcome === 'not_charged' && (before.orderId ? before.retrySafe : !same)
  if (!before || failed) {
    // Stored before it is sent: whatever happens from here on, the same key is sent again.
    const body = { caja_id: box, external_reference: ticket, amount }
    keep('sales', ticket, { charge: { ...body, idempotencyKey: randomUUID() } })
  } else if (!same)
    throw new Error('This ticket was sent with another amount. Finish that charge first.')
  await send_charge(ticket)
  return wait_for_end(ticket)
}

async function send_charge(ticket: string): Promise<string> {
  const sale = saleOf(ticket)
  if (sale.retry === 'no' && sale.outcome === 'unknown')
    throw new Error('Look for the order before you charge again.')
  try {
    const { order_id: orderId } = await client.charge(sale.charge)
    keep('sales', ticket, { charge: sale.charge, orderId })
    return orderId
  } catch (error) {
    if (!(error instanceof TillbridgeError)) throw error
    const { outcome = 'unknown', retry, body } = error
    // ORDER_ALREADY_PAID names the order: read it. Anything else ends here, such as TERMINAL_BUSY.
    const isPaid = outcome === 'charged' && body.order_id !== undefined
    keep('sales', ticket, {
      charge: sale.charge,
      outcome,
      retry,
      ...(isPaid && { orderId: body.order_id }),
    })
    if (!isPaid) throw error
    return String(body.order_id)
  }
}

async function wait_for_end(ticket: string) {
  const { orderId = '', charge: sent } = saleOf(ticket)
  const order = await client.waitForEnd(orderId, { onChange: show_cashier })
  keep('sales', ticket, {
    charge: sent,
    orderId,
    outcome: order.outcome,
    retrySafe: order.retry_safe,
  })
  return order
}

async function cancel(ticket: string) {
  const orderId = saleOf(ticket).orderId ?? (await send_charge(ticket))
  try {
    await client.cancel(orderId)
  } catch (error) {
    // ORDER_AT_TERMINAL: the cashier cancels on the terminal. The order says how it ends.
    if (!(error instanceof TillbridgeError)) throw error
    show_cashier(error)
  }
  return wait_for_end(ticket)
}

async function refund(ticket: string, amount?: string) {
  // A refund that got no answer is repeated before any other.
  const wanted = {
    order_id: saleOf(ticket).orderId ?? '',
    ...(amount && { amount }),
    idempotencyKey: randomUUID(),
  }
  const before = read<Refund>('refunds', ticket)
  if (before) console.log('The refund of before is sent again, and no other')
  const sent = before ?? wanted
  keep('refunds', ticket, sent)
  const forget = () => db.prepare('DELETE FROM refunds WHERE ticket = ?').run(ticket)
  try {
    await client.refund(sent)
  } catch (error) {
    if (error instanceof TillbridgeError && error.outcome !== 'unknown') forget()
    throw error
  }
  forget()
  return wait_for_end(ticket)
}

async function resume() {
  for (const { ticket } of db.prepare('SELECT ticket FROM refunds').all())
    await refund(String(ticket))
  for (const { ticket, json } of db.prepare('SELECT * FROM sales').all()) {
    const { outcome = 'unknown', charge: sent } = JSON.parse(String(json)) as Sale
    if (outcome === 'unknown') await charge(String(ticket), sent.amount)
  }
}

async function close_day(day: string, ...counted: string[]) {
  const declared = Object.fromEntries(counted.map((one) => one.split('=')))
  const closing = await client.closeDay({ caja_id: box, business_day: day, declared })
  for (const { kind, message } of closing.lines) console.log(kind, message)
  console.log(`closing ${closing.number}: ${closing.state}`)
}

const steps = { charge, cancel, refund, resume, close_day }
const [step = '', ...words] = process.argv.slice(2)
if (!Object.hasOwn(steps, step))
  throw new Error(`a step is one of ${Object.keys(steps).join(', ')}`)
try {
  const order = await (steps[step as 'charge'] as (...all: string[]) => ReturnType<typeof charge>)(
    ...words,
  )
  if (order) console.log(`${order.external_reference}: ${order.outcome}`)
  process.exitCode = step === 'charge' && order?.outcome !== 'charged' ? 1 : 0
} catch (error) {
  if (error instanceof TillbridgeError) show_cashier(error)
  console.error(String(error))
  process.exitCode = error instanceof NoAnswerError ? 2 : 1
}
