import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { oneText } from './form.ts'
import type { OperatingMode, Seller, Terminal } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord, readBody, single, text } from './validation-errors.ts'

function whole(fallback: number, low: number) {
  return text((value) => /^\d{1,9}$/.test(value) && Number(value) >= low)
    .optional()
    .transform((value) => Number(value ?? fallback))
}

const Query = z.object({
  // A larger limit is lowered silently.
  limit: whole(50, 1).transform((limit) => Math.min(50, limit)),
  offset: whole(0, 0),
})
const Setup = z.strictObject({
  terminals: single(
    z.strictObject({
      id: text(),
      operating_mode: text((mode) => mode === 'PDV' || mode === 'STANDALONE').pipe(
        z.enum(['PDV', 'STANDALONE']),
      ),
    }),
  ),
})

/** Terminals of a seller: list and operating mode (provider facts 5). Pairing is done on the device, here by /_sandbox. */
export function terminalRoutes(app: FastifyInstance, ctx: Context): void {
  app.get('/terminals/v1/list', (request) => {
    const seller = authenticate(ctx, request)
    const { limit, offset } = readBody(Query, { ...Object(request.query) })
    const posId = oneText(request.query, 'pos_id')
    const storeId = oneText(request.query, 'store_id')
    const found = [...ctx.state.tables.terminals.values()]
      .filter((terminal) => terminal.userId === seller.id)
      .map((terminal) => showTerminal(ctx, terminal))
      .filter((shown) => posId === undefined || String(shown.pos_id) === posId)
      .filter((shown) => storeId === undefined || shown.store_id === storeId)
    return {
      data: { terminals: found.slice(offset, offset + limit) },
      paging: { total: found.length, offset, limit },
    }
  })

  app.patch('/terminals/v1/setup', (request) => {
    const seller = authenticate(ctx, request)
    const { id, mode } = readSetup(request.body)
    const terminal = setMode(ctx, seller, id, mode)
    return { terminals: [{ id: terminal.id, operating_mode: terminal.operatingMode }] }
  })
}

function readSetup(body: unknown) {
  if (isRecord(body) && Array.isArray(body.terminals) && body.terminals.length !== 1) {
    throw apiError(400, 'invalid_payload', 'Exactly one terminal per request is supported.')
  }
  const [terminal] = readBody(Setup, body).terminals
  return { id: terminal?.id ?? '', mode: terminal?.operating_mode ?? 'STANDALONE' }
}

function setMode(ctx: Context, seller: Seller, id: string, mode: OperatingMode): Terminal {
  const terminal = ctx.state.tables.terminals.get(id)
  if (terminal === undefined || terminal.userId !== seller.id) {
    throw apiError(404, 'not_found', 'Terminal not found.')
  }
  if (terminal.posId === null) {
    throw apiError(403, 'store_pos_not_found', 'The terminal has no store and point of sale.')
  }
  if (mode === 'PDV' && pdvOn(ctx, terminal.posId, id) !== undefined) {
    // The status and this sentence are documented, the body is not (provider facts 5.2).
    throw apiError(412, '412', 'Only one pos-store with PDV mode ON or SUSPENDED is allowed')
  }
  const changed: Terminal = { ...terminal, operatingMode: mode }
  ctx.state.commit('terminal.mode_changed', id, { terminals: { [id]: changed } })
  ctx.wake()
  return changed
}

/** The terminal in PDV on a POS, other than `except`; at most one. */
export function pdvOn(ctx: Context, posId: number, except?: string): Terminal | undefined {
  return [...ctx.state.tables.terminals.values()].find(
    (other) => other.posId === posId && other.id !== except && other.operatingMode === 'PDV',
  )
}

/** A terminal as the list shows it. Without a POS it has neither box nor store. */
export function showTerminal(ctx: Context, terminal: Terminal) {
  const pos = terminal.posId === null ? undefined : ctx.state.tables.pos.get(String(terminal.posId))
  return {
    id: terminal.id,
    ...(pos !== undefined && { pos_id: pos.id, store_id: String(pos.storeId) }),
    ...(pos !== undefined && pos.externalId !== null && { external_pos_id: pos.externalId }),
    operating_mode: terminal.operatingMode,
  }
}
