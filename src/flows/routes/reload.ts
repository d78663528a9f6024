import type { HttpServer } from '../../http/create-server.ts'
import { actorOf, type ControlDeps, forOperators, languageOf, viewProblem } from './control-deps.ts'
import { ReloadResponse } from './control-schemas.ts'

export function addReload(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/flows/reload',
    {
      ...forOperators,
      schema: {
        operationId: 'reloadFlows',
        summary: 'Read the flow files again',
        description: 'A file with problems stops nothing: its flow keeps its old definition.',
        tags: ['Flows'],
        response: { 200: ReloadResponse },
      },
    },
    async (request) => {
      const { flows: names, problems } = await flows.reload(actorOf(request))
      const language = languageOf(request)
      return { flows: names, problems: problems.map((one) => viewProblem(one, language)) }
    },
  )
}
