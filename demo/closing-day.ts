import { setTimeout as wait } from 'node:timers/promises'
import { expectStatus, request } from './http.ts'
import type { ServiceProcess } from './service-process.ts'
import type { Steps } from './steps.ts'

/** What a cashier counts at the end: the three sales of the till's day. */
const counted = { debit_card: '1234,50', credit_card: '15999,90', qr: '800,00' }
const withinMs = 20_000

type Side = { count: number; amount: string; refunded: string }
type Closing = {
  id: string
  number: number
  state: string
  reason: string | null
  lines: { kind: string; message: string }[]
  totals: { here: Side; there: Side } | null
}

/**
 * Closes what the box sold since `from`: counted, compared with the provider's own list charge by charge, and signed. Throws
 * unless both agree to the cent.
 */
export async function closeDay(
  { url }: ServiceProcess,
  { key, box, from }: { key: string; box: string; from: Date },
  steps: Steps,
): Promise<void> {
  await steps.step('Close the day: compare with the provider, sign', async () => {
    const opened = expectStatus(
      await request('POST', `${url}/closings`, {
        token: key,
        body: {
          caja_id: box,
          from: from.toISOString(),
          to: new Date().toISOString(),
          declared: counted,
        },
      }),
      200,
      202,
    )
    const { state, reason, lines, totals } = await untilChecked(String(opened.id))
    if (state !== 'agreed' || !totals) {
      const differences = lines.map(({ kind, message }) => `${kind}: ${message}`).join('; ')
      throw new Error(`the day is ${state} (${reason ?? differences})`)
    }
    const signed = expectStatus(
      await request('POST', `${url}/closings/${opened.id}/sign`, { token: key }),
      200,
    )
    const { here, there } = totals
    return {
      shown: `closing ${signed.number}, ${signed.state}: ${here.count} charges of ${here.amount} here, ${there.count} of ${there.amount} there, ${there.refunded} refunded; both counts agree`,
      value: undefined,
    }
  })

  async function untilChecked(id: string): Promise<Closing> {
    const until = performance.now() + withinMs
    for (;;) {
      const closing = expectStatus(
        await request('GET', `${url}/closings/${id}`, { token: key }),
        200,
      ) as unknown as Closing
      if (!['open', 'checking'].includes(closing.state)) return closing
      if (performance.now() > until) throw new Error(`the closing is still ${closing.state}`)
      await wait(100)
    }
  }
}
