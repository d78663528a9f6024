import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { deriveFlow } from '../../fleet/flow-health.ts'
import type { Health } from '../../fleet/health-states.ts'
import { messageOf } from '../../fleet/health-texts.ts'
import type { Language } from '../../texts/language.ts'
import { shownReason } from '../../texts/reason.ts'
import { toWire } from '../api/api-model.ts'
import {
  ErrorsQuery,
  ErrorsResponse,
  FlowActivityQuery,
  FlowActivityResponse,
  FlowSchema,
  FlowStatusResponse,
  FlowStatusSchema,
  FlowsResponse,
  FlowWithoutDefinition,
  StatsResponse,
} from '../api/control-schemas.ts'
import type { FlowStatus } from '../api/control-types.ts'
import { givenKey } from '../item/item.ts'
import { type ControlDeps, languageOf, viewProblem } from './control-deps.ts'

/** The status with the code of its reason, which the page reads. */
const withCode = (status: FlowStatus) => ({
  ...status,
  code: shownReason(status.why, 'en')?.code ?? null,
})

function healthOf(health: Health | undefined, language: Language, at: Date) {
  return health ? { ...health, message: messageOf(health, language, at) } : null
}

export const statusRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(countRoutes, deps)
  await app.register(flowRoutes, deps)
  await app.register(activityRoute, deps)
}

/** Deliveries in numbers, and what failed. */
const countRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/stats',
    {
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'readStats',
        summary: 'Counts of deliveries',
        tags: ['Monitoring'],
        response: { 200: StatsResponse },
      },
    },
    () => flows.stats(),
  )

  app.get(
    '/errors',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listErrors',
        summary: 'Failures, newest first',
        tags: ['Monitoring'],
        querystring: ErrorsQuery,
        response: { 200: ErrorsResponse },
      },
    },
    async (request) => {
      const { pk, ...others } = request.query
      const errors = await flows.errors({
        ...others,
        ...(pk !== undefined && { pk: givenKey(pk) }),
      })
      return toWire(ErrorsResponse, errors, languageOf(request))
    },
  )
}

/** The flows, each with its state. */
const flowRoutes: FastifyPluginAsyncZod<ControlDeps> = async (
  app,
  { flows, now, dashboardPage, shopTimeZone },
) => {
  app.get(
    '/flows/status',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'readFlowStatus',
        summary: 'Running, paused or limited, by flow',
        tags: ['Flows'],
        response: { 200: FlowStatusResponse },
      },
    },
    async (request) => {
      const status = await flows.status()
      const language = languageOf(request)
      return Object.fromEntries(
        [...status].map(([name, one]) => [name, toWire(FlowStatusSchema, withCode(one), language)]),
      )
    },
  )

  app.get(
    '/flows',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listFlows',
        summary: 'Every flow at a glance, and what is wrong with flow files',
        tags: ['Flows'],
        response: { 200: FlowsResponse },
      },
    },
    async (request) => {
      const cards = await flows.cards()
      const at = now()
      const language = languageOf(request)
      const health = new Map(
        (await flows.observed()).map((seen) => [seen.flow, deriveFlow(seen, at)]),
      )
      const flowsOf = cards.map((card) => {
        const seen = health.get(card.name)
        const healthOfDestination = (name: string) =>
          seen?.destinations.find((one) => one.name === name)
        return toWire(
          FlowSchema,
          {
            ...card,
            status: withCode(card.status),
            destinations: card.destinations.map((one) => ({
              ...one,
              health: healthOf(healthOfDestination(one.name), language, at),
            })),
            health: healthOf(seen, language, at),
          },
          language,
        )
      })
      return {
        flows: flowsOf,
        dashboard_page: dashboardPage ?? null,
        time_zone: await shopTimeZone(),
        problems: flows.problems().map((one) => viewProblem(one, language)),
        without_definition: (await flows.withoutDefinition()).map((one) =>
          toWire(FlowWithoutDefinition, one, language),
        ),
      }
    },
  )
}

/** Who did what. */
const activityRoute: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/flows/activity',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listFlowActivity',
        summary: 'Who did what to which flow, newest first',
        tags: ['Flows'],
        querystring: FlowActivityQuery,
        response: { 200: FlowActivityResponse },
      },
    },
    async (request) => {
      const { flow, limit } = request.query
      const activity = await flows.activity({ flow }, limit)
      return toWire(FlowActivityResponse, { activity }, languageOf(request))
    },
  )
}
