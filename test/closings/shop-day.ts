import { asClientName } from '../../src/domain/client-name.ts'
import type { TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

/** A charge that is paid, and read as paid here. */
export async function sell(
  service: TestService,
  till: Till,
  reference: string,
  { amount = '1000,00', box = 'CAJA-1', how = payByCard as Record<string, unknown> } = {},
): Promise<string> {
  const { order_id } = (await charge(service, till, { reference, amount, box })).json()
  await act(service, order_id, how)
  await readOrder(service, till, order_id)
  return order_id
}

/** The current day in Buenos Aires, where the sandbox's shops are. */
export function today(service: TestService): string {
  return new Date(service.clock.now().getTime() - 3 * 3_600_000).toISOString().slice(0, 10)
}

/** Advances the clock to eight in the morning of the next day in Buenos Aires, so that no test crosses midnight. */
export function untilMorning({ clock }: TestService): void {
  const hourMs = 3_600_000
  const sinceMidnight = (clock.now().getTime() - 3 * hourMs) % (24 * hourMs)
  clock.advance(24 * hourMs - sinceMidnight + 8 * hourMs)
}

export function openClosing(service: TestService, till: Till, body: object = {}) {
  return call(service, {
    url: '/closings',
    token: till.key,
    body: { caja_id: 'CAJA-1', business_day: today(service), ...body },
  })
}

export async function readClosing(service: TestService, till: Till, id: string) {
  return (await call(service, { url: `/closings/${id}`, token: till.key })).json()
}

/** Advances the clock, and the watch does its due work. */
export async function watchAfter(service: TestService, ms: number): Promise<void> {
  service.clock.advance(ms)
  await service.paymentWatch.watchOnce()
}

/** Opens a closing and advances the clock until its result. */
export async function close(service: TestService, till: Till, body: object = {}) {
  const { id } = (await openClosing(service, till, body)).json()
  await watchAfter(service, 61_000)
  return readClosing(service, till, id)
}

export async function mpPosOf(service: TestService, till: Till, box = 'CAJA-1'): Promise<number> {
  const row = await service.database.db
    .selectFrom('pos')
    .select('mp_pos_id')
    .where('client', '=', asClientName(till.client))
    .where('external_id', '=', box)
    .executeTakeFirstOrThrow()
  return Number(row.mp_pos_id)
}

let typed = 960_000_000

/** A charge typed into the terminal of a box; returns its payment id. */
export async function typeCharge(
  service: TestService,
  till: Till,
  fields: Record<string, unknown> = {},
  box = 'CAJA-1',
): Promise<string> {
  typed += 1
  await sandboxCall(service, 'POST', '/_sandbox/payments', {
    user_id: till.mpUserId,
    pos_id: await mpPosOf(service, till, box),
    amount: '77.50',
    id: typed,
    at: service.clock.now().toISOString(),
    ...fields,
  })
  return String(typed)
}
