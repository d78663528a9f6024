import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { actionOf } from '../../fleet/causes.ts'
import type { FleetChange } from '../../fleet/health-changes.ts'
import {
  type BoxHealth,
  type FleetHealth,
  type Health,
  healthOfStores,
  isProblem,
} from '../../fleet/health-states.ts'
import { messageOf } from '../../fleet/health-texts.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { type Language, preferredLanguage } from '../../texts/language.ts'
import { storesOfRequest } from '../store-access.ts'
import {
  causeTable,
  FleetChangesQuery,
  FleetChangesResponse,
  FleetQuery,
  FleetResponse,
} from './fleet-schemas.ts'

const description = `Every box, connection, flow and destination with its state, cause, start and next step. The provider has
no call for the state of a terminal, so the states come from charges and reads. Without a recent use the state is
\`unknown\`; otherwise it is the state of the last use. A key sees its own boxes and connection.

${causeTable}`

export const fleetRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'readFleetHealth',
        summary: 'Whether every box can sell, and if not, why',
        description,
        querystring: FleetQuery,
        response: { 200: FleetResponse },
      },
    },
    async (request) => {
      const health = healthOfStores(
        await deps.fleet.read(request.tenant ?? undefined),
        storesOfRequest(request),
      )
      const language = preferredLanguage(request.headers['accept-language'])
      return viewFleet(health, language, request.query.only === undefined ? () => true : isProblem)
    },
  )

  app.get(
    '/changes',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'listFleetChanges',
        summary: 'What has changed in the states of boxes, connections and flows, newest first',
        description:
          'Kept for 90 days. A key sees the changes of its own boxes and connection; those of flows belong to no client, so only the administrator sees them, when he asks for no client.',
        querystring: FleetChangesQuery,
        response: { 200: FleetChangesResponse },
      },
    },
    async (request) => {
      const { caja_id: cajaId, before, limit } = request.query
      const client = request.tenant ?? undefined
      const language = preferredLanguage(request.headers['accept-language'])
      const changes = await deps.fleet.history({
        client,
        stores: storesOfRequest(request),
        cajaId,
        before,
        limit: limit + 1,
      })
      const shown = changes.slice(0, limit)
      return {
        changes: shown.map((change) => viewChange(change, language)),
        next_before: changes.length > limit ? (shown.at(-1)?.id ?? null) : null,
      }
    },
  )
}

/** The state of all parts that `isWanted` selects, in the form of the API. */
export function viewFleet(
  health: FleetHealth,
  language: Language,
  isWanted: (one: Health) => boolean,
) {
  const view = (one: Health) => viewHealth(one, language, health.at)
  return {
    at: health.at,
    boxes: health.boxes.filter(isWanted).map((box) => ({
      client: box.client,
      caja_id: box.cajaId,
      sucursal_id: box.sucursalId,
      ...viewBoxHealth(box, language, health.at),
    })),
    connections: health.connections
      .filter(isWanted)
      .map((one) => ({ client: one.client, ...view(one) })),
    flows: health.flows
      .filter((flow) => isWanted(flow) || flow.destinations.some(isWanted))
      .map((flow) => ({
        flow: flow.flow,
        ...view(flow),
        destinations: flow.destinations.filter(isWanted).map((one) => ({
          ...one,
          ...view(one),
          next_try_at: one.nextTryAt,
        })),
      })),
  }
}

/** The health of a box at a moment. */
export function viewBoxHealth(box: BoxHealth, language: Language, at: Date) {
  return {
    terminal_id: box.terminalId,
    ...viewHealth(box, language, at),
    order_id: box.about.orderId ?? null,
  }
}

/** The duration of a cause that has just begun is left out. */
const lastingMs = 60_000

function viewChange({ id, at, subject, from, to }: FleetChange, language: Language) {
  const { kind, scope, name } = subject
  const hasLasted = to.since !== null && at.getTime() - to.since.getTime() >= lastingMs
  return {
    id,
    at,
    kind,
    client: kind === 'box' || kind === 'connection' ? scope : null,
    flow: kind === 'destination' ? scope : null,
    name: name === '' ? null : name,
    from: from && { state: from.state, cause: from.cause },
    to: { state: to.state, cause: to.cause },
    message: messageOf({ ...to, since: hasLasted ? to.since : null }, language, at),
  }
}

function viewHealth(health: Health, language: Language, at: Date) {
  return {
    state: health.state,
    cause: health.cause,
    since: health.since,
    action: actionOf(health.cause),
    message: messageOf(health, language, at),
  }
}
