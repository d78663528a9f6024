import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { asClientName } from '../../domain/client-name.ts'
import { pointFromCents } from '../../domain/money.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  type BusyOrder,
  type FreeingAction,
  freeTerminalByHand,
  type TerminalVerdict,
} from '../../payments/terminals/free-terminal.ts'
import { contextOf, providerErrors } from '../authentication.ts'
import { FreeTerminalBody, FreeTerminalResponse, TerminalParams } from './free-terminal-schemas.ts'

const verdictTexts: Record<TerminalVerdict, string> = {
  clear:
    'No order of this service holds the terminal. If charges are still refused as TERMINAL_BUSY, the order came from somewhere else: cancel it there or on the device; if its screen shows none, press refresh there or restart it; at the latest it ends when it expires',
  freed: 'No order of this service holds the terminal any more',
  would_be_freed: 'The terminal would be free; send the same request with dry_run false',
  held: 'The terminal is still held; each order says what to do',
}

const actionTexts: Record<FreeingAction, string> = {
  cancel: 'It waits for the device; the provider can cancel it',
  resolve:
    'Whether the provider has it is unknown: it is asked for under its own key, and canceled when it is there',
  ask_device:
    'The device shows it: the provider can be asked to cancel it there; until the device answers it may still take the money',
  cancel_requested:
    'The cancel is requested; the device may still take the money: look again in a moment',
  cancel_on_device:
    'The device shows it and takes no cancel from here, so only the device can cancel it: cancel there; if the screen does not react, restart the device and look again; at the latest it ends when it expires',
  wait: 'The provider does not answer, so nothing is done: try again',
  other_client: 'It belongs to another client: name that client',
  none: 'It does not hold the terminal',
}

export const freeTerminalRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.post(
    '/:terminalId/free',
    {
      config: {
        needs: 'administer',
        errors: [...providerErrors, 'NOT_FOUND', 'TERMINAL_NOT_FOUND'],
      },
      schema: {
        operationId: 'freeTerminal',
        summary: 'Say which orders hold a terminal, and cancel what can be canceled',
        description:
          'Every order is read at the provider first. A dry run, which is the default, changes nothing.',
        params: TerminalParams,
        body: FreeTerminalBody,
        response: { 200: FreeTerminalResponse },
      },
    },
    async (request) => {
      const { terminalId } = request.params
      const { client, dry_run, reason } = request.body
      const { verdict, orders } = await freeTerminalByHand(
        deps,
        asClientName(client),
        { terminalId, dryRun: dry_run, reason },
        contextOf(deps, request),
      )
      return {
        message: verdictTexts[verdict],
        verdict,
        client,
        terminal_id: terminalId,
        dry_run,
        orders: orders.map((busy) => viewBusyOrder(busy, deps.now())),
      }
    },
  )
}

function viewBusyOrder({ order, action, done, failure }: BusyOrder, now: Date) {
  const ageMs = now.getTime() - order.created_at.getTime()
  return {
    ...order,
    order_id: order.id,
    amount: pointFromCents(order.amount_cents),
    age_seconds: Math.max(0, Math.floor(ageMs / 1000)),
    action,
    done,
    message: messageOf(action, done, failure?.message),
  }
}

function messageOf(action: FreeingAction, done: boolean, failure: string | undefined): string {
  if (done) return 'It is canceled'
  const isTried = action === 'cancel' || action === 'ask_device' || action === 'resolve'
  return isTried && failure !== undefined
    ? `It could not be canceled: ${failure}`
    : actionTexts[action]
}
