import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { toWire } from '../api/api-model.ts'
import {
  DestinationParams,
  DestinationResponse,
  SendingResponse,
  StartBody,
  StartedResponse,
  StopBody,
  StoppedResponse,
} from '../api/control-schemas.ts'
import { actorNameOf } from './control-authentication.ts'
import { type ControlDeps, languageOf } from './control-deps.ts'

export const sendingRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(sendingStateRoutes, deps)
  await app.register(sendingStopRoutes, deps)
}

/** Where sending is stopped, and how fast destinations are. */
const sendingStateRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/sending',
    {
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'readSending',
        summary: 'Where sending is stopped',
        tags: ['Sending'],
        response: { 200: SendingResponse },
      },
    },
    async (request) =>
      toWire(SendingResponse, { stops: await flows.sendStops() }, languageOf(request)),
  )

  app.get(
    '/destinations/:name',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readDestination',
        summary: 'Speed of the deliveries to each destination, by flow',
        tags: ['Sending'],
        params: DestinationParams,
        response: { 200: DestinationResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const reports = await flows.destination(name)
      return toWire(DestinationResponse, { name, flows: reports }, languageOf(request))
    },
  )
}

/** Sending stops and starts. */
const sendingStopRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/sending/stop',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'stopSending',
        summary: 'Stop sending: to a destination of every flow, of a flow, or everywhere',
        description:
          'Kept over restarts. Requests in progress complete; what waits stays waiting, and no attempt is spent. Flows go on reading their sources: /flow/{name}/pause ends that. A stop in force keeps who set it first, and why. 404 for a flow or a destination that no file defines.',
        tags: ['Sending'],
        body: StopBody,
        response: { 200: StoppedResponse },
      },
    },
    async (request) => {
      const { flow = null, destination = null, reason = null } = request.body ?? {}
      const stop = await flows.stopSending({ flow, destination }, actorNameOf(request), reason)
      return toWire(StoppedResponse, { ...stop, status: 'stopped' }, languageOf(request))
    },
  )

  app.post(
    '/sending/start',
    {
      config: { needs: 'run_flows' },
      schema: {
        operationId: 'startSending',
        summary: 'Send again',
        description:
          'Ends the stop of exactly this scope. Others stay in force: the answer lists those that concern what it names.',
        tags: ['Sending'],
        body: StartBody,
        response: { 200: StartedResponse },
      },
    },
    async (request) => {
      const { flow = null, destination = null } = request.body ?? {}
      const stops = await flows.startSending({ flow, destination }, actorNameOf(request))
      const status = stops.length > 0 ? 'stopped' : 'started'
      return toWire(StartedResponse, { flow, destination, status, stops }, languageOf(request))
    },
  )
}
