import { setTimeout as wait } from 'node:timers/promises'
import type { LedgerOrder, SandboxLedger } from '../../sandbox/ledger.ts'
import { expectStatus, request } from '../http.ts'
import type { RecordedLine, SentRequest } from './line.ts'
import type { Step, Till, TillEnd } from './till.ts'

/** What the buyer at the terminal does with each order. */
type Buyer = 'pay' | 'decline' | 'nothing'

/** What a case uses: the till, its network, and the sandbox. */
export type Stage = {
  line: RecordedLine
  till: Till
  /** One step of the till, to its end. */
  run(step: Step, ...words: string[]): Promise<TillEnd>
  buyer: { does: Buyer }
  sandbox(method: string, path: string, body?: object): Promise<Record<string, unknown>>
  /** A number that no earlier run has used. */
  newTicket(): string
  /** What the till sent in this case. */
  sent(): SentRequest[]
  /** The orders that this case made at Mercado Pago, without those of `others`. */
  orders(others?: readonly string[]): Promise<LedgerOrder[]>
  /** The terminal of the till's box: that of its first charge. */
  terminalId(): Promise<string | undefined>
  /** Waits for it; false when it has not come in time. */
  until(isSo: () => boolean | Promise<boolean>): Promise<boolean>
  /** Before each case. */
  begin(): Promise<void>
  /** The terminal leaves each order where the till can cancel it. */
  holdTerminal(): Promise<void>
  /** Ends every situation, and takes the orders off the terminal. */
  clear(): Promise<void>
}

const buyerTakesMs = 700
const untilMs = 60_000
const isOpen = ({ status }: LedgerOrder) => ['created', 'at_terminal'].includes(status)

/** Opens it for the sandbox at `sandboxUrl`. Its buyer acts until `signal` is aborted. */
export function openStage(
  sandboxUrl: string,
  line: RecordedLine,
  till: Till,
  signal: AbortSignal,
): Stage {
  const buyer: Stage['buyer'] = { does: 'pay' }
  let paceBefore: object | undefined
  let firstSent = 0
  let firstOrder = 0
  // Counted from 2026, so that two runs have no ticket in common.
  let ticket = Math.floor((Date.now() - Date.UTC(2026, 0)) / 100)

  const sandbox: Stage['sandbox'] = async (method, path, body) =>
    expectStatus(await request(method, `${sandboxUrl}/_sandbox${path}`, { body }), 200, 201)
  const allOrders = async () =>
    ((await sandbox('GET', '/ledger?effects=0')) as SandboxLedger).orders
  const acts = (id: string, body: object) => sandbox('POST', `/orders/${id}/act`, body)
  /** Orders that the buyer leaves to the case. */
  const isOurs = (order: LedgerOrder, index: number) =>
    index >= firstOrder && isOpen(order) && order.external_reference !== otherSale

  async function buy(): Promise<void> {
    const seenAt = new Map<string, number>()
    while (!signal.aborted) {
      await wait(100)
      if (buyer.does === 'nothing') continue
      for (const { id } of (await allOrders()).filter(isOurs)) {
        const since = seenAt.get(id) ?? performance.now()
        seenAt.set(id, since)
        if (performance.now() - since < buyerTakesMs) continue
        await acts(id, buyer.does === 'pay' ? { do: 'pay', ...debit } : { do: 'decline' })
      }
    }
  }
  // A sandbox that does not answer shows in the case itself.
  const keepBuying = (): void => void buy().catch(() => !signal.aborted && keepBuying())
  keepBuying()

  return {
    line,
    till,
    buyer,
    sandbox,
    run: (step, ...words) => till.start(step, ...words).ended,
    newTicket: () => {
      ticket += 1
      return `0001-${ticket}`
    },
    sent: () => line.sent.slice(firstSent),
    orders: async (others = []) =>
      (await allOrders()).slice(firstOrder).filter(({ id }) => !others.includes(id)),
    terminalId: async () => (await allOrders()).at(-1)?.terminal_id,
    async until(isSo) {
      const last = performance.now() + untilMs
      while (performance.now() < last) {
        if (await isSo()) return true
        await wait(50)
      }
      return false
    },
    async begin() {
      firstSent = line.sent.length
      firstOrder = (await allOrders()).length
    },
    async holdTerminal() {
      paceBefore = await sandbox('GET', '/pace')
      await sandbox('PUT', '/pace', { fetch_ms: 3_600_000 })
    },
    async clear() {
      buyer.does = 'pay'
      line.repair()
      if (paceBefore !== undefined) await sandbox('PUT', '/pace', paceBefore)
      paceBefore = undefined
      await sandbox('DELETE', '/faults')
      for (const { id } of (await allOrders()).slice(firstOrder).filter(isOpen)) {
        await acts(id, { do: 'cancel' })
      }
    },
  }
}

const debit = { payment_method_type: 'debit_card', payment_method_id: 'debvisa' }

/** The reference of a charge of another application, which no buyer pays. */
export const otherSale = 'ANOTHER-TILL'
