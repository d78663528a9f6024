import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { type Health, healthOfStores, isProblem } from '../../fleet/health-states.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { viewBoxHealth, viewFleet } from '../fleet/fleet-routes.ts'
import { FleetResponse } from '../fleet/fleet-schemas.ts'
import { readStatistics } from '../statistics/statistics-routes.ts'
import {
  AllStatisticsQuery,
  mostBoxes,
  StatisticsResponse,
} from '../statistics/statistics-schemas.ts'
import { storesOfRequest } from '../store-access.ts'

const OverviewQuery = z.object({
  ...AllStatisticsQuery.shape,
  most_boxes: z.coerce
    .number()
    .int()
    .min(1)
    .max(mostBoxes)
    .default(mostBoxes)
    .describe(
      'At most so many boxes, the most urgent ones. A box with a problem, or with an order in doubt, is always included',
    ),
})

const { boxes, ...fleet } = FleetResponse.shape
const { client: _client, caja_id: _caja, sucursal_id: _sucursal, ...health } = boxes.element.shape

const OverviewResponse = z
  .object({
    ...StatisticsResponse.shape,
    boxes: z
      .array(
        z.object({
          ...StatisticsResponse.shape.boxes.element.shape,
          health: z.object(health).nullable().describe('How it fares, as in `GET /health/fleet`'),
        }),
      )
      .describe('Boxes in use'),
    box_counts: z
      .object({ total: z.number(), ok: z.number().describe('Seen to work a short while ago') })
      .describe('Of all boxes in use'),
    fleet: z.object(fleet).describe('Other problems, as in `GET /health/fleet?only=problems`'),
  })
  .meta({ id: 'Overview' })

const description = `The numbers of \`GET /statistics\` and the problems of \`GET /health/fleet\` in one answer, with the
state of each box: the first page of the dashboard. For a chain of a thousand boxes, \`most_boxes\` limits the answer to the
most urgent ones.`

/** The first data of the dashboard, in one response. */
export const overviewRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'readOverview',
        summary: 'The numbers of a span, and the most urgent problems',
        description,
        querystring: OverviewQuery,
        response: { 200: OverviewResponse },
      },
    },
    async (request) => {
      const client = request.tenant ?? undefined
      const stores = storesOfRequest(request)
      const [{ boxes, ...statistics }, seen] = await Promise.all([
        readStatistics(deps, client, request.query, stores),
        deps.fleet.read(client).then((health) => healthOfStores(health, stores)),
      ])
      const language = preferredLanguage(request.headers['accept-language'])
      const { boxes: _boxes, ...fleet } = viewFleet(seen, language, isProblem)
      const healthOf = new Map(
        seen.boxes.map((one) => [keyOf({ client: one.client, caja_id: one.cajaId }), one]),
      )
      const inDoubt = new Set(statistics.in_doubt.map(keyOf))
      const standings = boxes.map((box) => ({ box, health: healthOf.get(keyOf(box)) }))
      const first = new Set(
        standings.toSorted((a, b) => rankOf(a) - rankOf(b)).slice(0, request.query.most_boxes),
      )
      const isListed = (one: (typeof standings)[number]) =>
        first.has(one) || (one.health && isProblem(one.health)) || inDoubt.has(keyOf(one.box))
      return {
        ...statistics,
        boxes: standings.filter(isListed).map(({ box, health }) => ({
          ...box,
          health: health ? viewBoxHealth(health, language, seen.at) : null,
        })),
        box_counts: {
          total: seen.boxes.length,
          ok: seen.boxes.filter(({ state }) => state === 'ok').length,
        },
        fleet,
      }
    },
  )
}

const keyOf = ({ client, caja_id: box }: { client: string; caja_id: string }) =>
  JSON.stringify([client, box])

type Standing = {
  box: { open: number; last_status: string | null; last_status_detail: string | null }
  health: Health | undefined
}

/** First what needs a person, then what is running, then what is stopped. */
function rankOf({
  box: { open, last_status: status, last_status_detail: detail },
  health,
}: Standing) {
  if (health?.state === 'down') return 0
  if (health?.state === 'attention') return 1
  if (health?.state === 'unknown' && health.cause !== 'never_charged') return 4
  if (status === 'action_required') return 1
  if (open > 0) return 2
  if (status === null) return 4
  if (status === 'failed' && detail === 'not_created') return 0
  return status === 'expired' ? 1 : 3
}
