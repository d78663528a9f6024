import { z } from 'zod'
import { FleetQuery, FleetResponse } from '../fleet/fleet-schemas.ts'
import {
  AllStatisticsQuery,
  mostBoxes,
  StatisticsResponse,
} from '../statistics/statistics-schemas.ts'

export const OverviewQuery = z.object({
  ...AllStatisticsQuery.shape,
  client: FleetQuery.shape.client,
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

export const OverviewResponse = z
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
