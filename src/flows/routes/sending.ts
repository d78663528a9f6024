import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import { actorOf, type ControlDeps, forFlow, forOperators, languageOf } from './control-deps.ts'
import {
  DestinationParams,
  DestinationResponse,
  SendingResponse,
  StartBody,
  StartedResponse,
  StopBody,
  StoppedResponse,
} from './control-schemas.ts'

export function addSending(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/sending',
    {
      ...forOperators,
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
      config: { ...forFlow.config, compressed: true },
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

  app.post(
    '/sending/stop',
    {
      ...forFlow,
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
      const stop = await flows.stopSending({ flow, destination }, actorOf(request), reason)
      return toWire(StoppedResponse, { ...stop, status: 'stopped' }, languageOf(request))
    },
  )

  app.post(
    '/sending/start',
    {
      ...forOperators,
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
      const stops = await flows.startSending({ flow, destination }, actorOf(request))
      const status = stops.length > 0 ? 'stopped' : 'started'
      return toWire(StartedResponse, { flow, destination, status, stops }, languageOf(request))
    },
  )
}
