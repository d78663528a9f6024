import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { ReloadResponse } from '../api/control-schemas.ts'
import { actorNameOf } from './control-authentication.ts'
import { type ControlDeps, languageOf, viewProblem } from './control-deps.ts'

export const reloadRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/flows/reload',
    {
      config: { needs: 'run_flows' },
      schema: {
        operationId: 'reloadFlows',
        summary: 'Read the flow files again',
        description: 'A file with problems stops nothing: its flow keeps its old definition.',
        tags: ['Flows'],
        response: { 200: ReloadResponse },
      },
    },
    async (request) => {
      const { flows: names, problems } = await flows.reload(actorNameOf(request))
      const language = languageOf(request)
      return { flows: names, problems: problems.map((one) => viewProblem(one, language)) }
    },
  )
}
