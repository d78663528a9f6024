import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { Language } from '../../texts/language.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import { toWire } from '../api/api-model.ts'
import { ItemParams } from '../api/control-schemas.ts'
import { controlError } from '../control-errors.ts'
import { templateNames, templateSources } from '../definition/flow-template.ts'
import { flowJsonSchema } from '../definition/json-schema.ts'
import type { DryRun } from '../workbench/dry-run.ts'
import type { DryRunDelivery } from '../workbench/dry-run-deliveries.ts'
import type { Caller, Checked, WhyReadOnly } from '../workbench/workbench.ts'
import {
  CheckBody,
  CheckedResponse,
  ConnectionApprovedResponse,
  ConnectionParams,
  ConnectionsResponse,
  ConnectionTestResponse,
  DryRunResponse,
  DryRunTextBody,
  FileParams,
  FlowFileResponse,
  FlowFilesResponse,
  FlowSchemaResponse,
  FlowVersionResponse,
  ItemRequestsResponse,
  SaveBody,
  SavedResponse,
  TemplateParams,
  TemplateQuery,
  TemplateResponse,
  VersionParams,
} from '../workbench/workbench-schemas.ts'
import { actorNameOf } from './control-authentication.ts'
import {
  type ControlDeps,
  languageOf,
  sourceResponses,
  viewProblem,
  whileConnected,
} from './control-deps.ts'
import { pkOf } from './items.ts'

const dryRunLimitsText =
  'The source is read for 20 s at most. No destination is called and nothing is saved. One at a time.'

/** Flow files: read, check, try and save them. */
export const workbenchRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(fileReadingRoutes, deps)
  await app.register(fileSavingRoutes, deps)
  await app.register(namedConnectionRoutes, deps)
  await app.register(checkRoutes, deps)
  await app.register(itemRequestRoute, deps)
  await app.register(schemaRoute, deps)
}

/** Flow files as they are and were. */
const fileReadingRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { workbench }) => {
  app.get(
    '/flow-files',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listFlowFiles',
        summary: 'The flow files and the templates for new ones',
        tags: ['Definitions'],
        response: { 200: FlowFilesResponse },
      },
    },
    async (request) => {
      const { folder, readOnly, files } = await workbench.list(callerOf(request))
      const templates = templateNames.map((name) => ({
        name,
        takesSource: !templateSources.some((one) => one === name),
      }))
      const sources = [...templateSources]
      const answer = { folder, files, templates, sources, ...viewReadOnly(readOnly) }
      return toWire(FlowFilesResponse, answer, languageOf(request))
    },
  )

  app.get(
    '/flow-files/:file',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND', 'FORBIDDEN'] },
      schema: {
        operationId: 'readFlowFile',
        summary: 'A flow file as it is on the disk, and its earlier versions',
        tags: ['Definitions'],
        params: FileParams,
        response: { 200: FlowFileResponse },
      },
    },
    async (request) => {
      const found = await workbench.read(request.params.file, callerOf(request))
      const answer = { ...found, ...viewReadOnly(found.readOnly) }
      return toWire(FlowFileResponse, answer, languageOf(request))
    },
  )

  app.get(
    '/flow-files/:file/versions/:version',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND', 'FORBIDDEN'] },
      schema: {
        operationId: 'readFlowFileVersion',
        summary: 'What a save has replaced; save its text to restore it',
        tags: ['Definitions'],
        params: VersionParams,
        response: { 200: FlowVersionResponse },
      },
    },
    async (request) => {
      const { file, version } = request.params
      return { file, version, ...(await workbench.readVersion(file, version)) }
    },
  )
}

/** A file is saved, or begun from a template. */
const fileSavingRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { workbench }) => {
  app.put(
    '/flow-files/:file',
    {
      config: { needs: 'run_flows', errors: ['FORBIDDEN', 'CONFLICT'] },
      schema: {
        operationId: 'saveFlowFile',
        summary: 'Save a flow file, keep what it replaces, and read all files again',
        description:
          'The definition is checked beside all others first; 400 says what is wrong. A new flow is called name.flow.yaml. 403 where the folder cannot be written, the workbench is closed to the caller, or the file is a link; 409 when the file is not the one of `base` any more.',
        tags: ['Definitions'],
        params: FileParams,
        body: SaveBody,
        response: { 200: SavedResponse },
      },
    },
    async (request) => {
      const saved = await workbench.save(request.params.file, request.body, callerOf(request))
      const language = languageOf(request)
      return { ...saved, problems: viewProblems(saved, language) }
    },
  )

  app.get(
    '/flow-templates/:template',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'readFlowTemplate',
        summary: 'A new definition from a template; nothing is saved',
        tags: ['Definitions'],
        params: TemplateParams,
        querystring: TemplateQuery,
        response: { 200: TemplateResponse },
      },
    },
    async (request) => {
      const { name, from } = request.query
      const made = workbench.fromTemplate(request.params.template, name, from)
      const { text, name: flow } = made
      return { text, name: flow, problems: viewProblems(made, languageOf(request)) }
    },
  )
}

/** The named connections that definitions use. */
const namedConnectionRoutes: FastifyPluginAsyncZod<ControlDeps> = async (
  app,
  { workbench, flows },
) => {
  app.get(
    '/flow-connections',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listConnections',
        summary: 'The connections that flows may use; credentials are not shown',
        tags: ['Definitions'],
        response: { 200: ConnectionsResponse },
      },
    },
    async () => ({ connections: await workbench.connections() }),
  )

  app.post(
    '/flow-connections/:name/test',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND', 'FORBIDDEN'], mayComeLate: true },
      schema: {
        operationId: 'testConnection',
        summary: 'Try a connection: one row, one request, the files of a folder, or a test message',
        description: 'It is tried for 10 s at most. Nothing is written.',
        tags: ['Definitions'],
        params: ConnectionParams,
        response: { 200: ConnectionTestResponse },
      },
    },
    async (request, reply) => {
      const { ok, what } = await whileConnected(app, reply, (signal) =>
        workbench.testConnection(request.params.name, callerOf(request), signal),
      )
      return { name: request.params.name, ok, message: sentenceOf(what, languageOf(request)) }
    },
  )

  app.post(
    '/flow-connections/:name/approve',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'approveConnection',
        summary:
          'Answer the question of all flows whose destinations a connection leads to another place',
        description:
          'This cannot be undone. Each of these flows sends all its items to the new place, as the answer `send` to POST /flow/:name/question does for one.',
        tags: ['Definitions'],
        params: ConnectionParams,
        response: { 200: ConnectionApprovedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const found = (await workbench.connections()).find((one) => one.name === name)
      if (!found) throw controlError('NOT_FOUND', { code: 'CONNECTION_NOT_THERE' })
      for (const flow of found.asking) {
        const { number } = await flows.question(flow)
        if (number !== null)
          await flows.answer(flow, { number, answer: 'send' }, actorNameOf(request))
      }
      return { name, flows: found.asking }
    },
  )
}

/** A definition is checked and tried before it is saved. */
const checkRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { workbench }) => {
  app.post(
    '/flow-definitions/check',
    {
      config: { needs: 'run_flows', errors: ['FORBIDDEN'] },
      schema: {
        operationId: 'checkDefinition',
        summary: 'What is wrong with a definition, by line; nothing is saved',
        tags: ['Definitions'],
        body: CheckBody,
        response: { 200: CheckedResponse },
      },
    },
    async (request) => {
      const { text, file } = request.body
      const checked = await workbench.check(text, file, callerOf(request))
      const language = languageOf(request)
      const problems = viewProblems(checked, language)
      return toWire(CheckedResponse, { ...checked, problems }, language)
    },
  )

  app.post(
    '/flow-definitions/dry-run',
    {
      config: { needs: 'run_flows', errors: ['FORBIDDEN', 'RATE_LIMITED'], mayComeLate: true },
      schema: {
        operationId: 'dryRunDefinition',
        summary: 'Read the first ten items of a definition and show the requests they would make',
        description: dryRunLimitsText,
        tags: ['Definitions'],
        body: DryRunTextBody,
        response: { 200: DryRunResponse, ...sourceResponses },
      },
    },
    async (request, reply) => {
      const made = await whileConnected(app, reply, (signal) =>
        workbench.dryRun(request.body, callerOf(request), signal),
      )
      return viewDryRun(made, languageOf(request))
    },
  )

  app.post(
    '/flow-files/:file/dry-run',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND', 'RATE_LIMITED'], mayComeLate: true },
      schema: {
        operationId: 'dryRunFlowFile',
        summary: 'The same of a flow file as it is on the disk, whether its flow is loaded or not',
        description: dryRunLimitsText,
        tags: ['Definitions'],
        params: FileParams,
        response: { 200: DryRunResponse, ...sourceResponses },
      },
    },
    async (request, reply) => {
      const made = await whileConnected(app, reply, (signal) =>
        workbench.dryRunFile(request.params.file, callerOf(request), signal),
      )
      return viewDryRun(made, languageOf(request))
    },
  )
}

/** What the flow would send about one item. */
const itemRequestRoute: FastifyPluginAsyncZod<ControlDeps> = async (app, { workbench }) => {
  app.get(
    '/flow/:name/items/:pk/requests',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readItemRequests',
        summary:
          'What each destination would get of one item now, and what differs from its last delivery',
        description:
          'Made from the newest stored record with the current definition; nothing is sent. Names replace secrets.',
        tags: ['Monitoring'],
        params: ItemParams,
        response: { 200: ItemRequestsResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      const language = languageOf(request)
      const { record, destinations } = await workbench.itemRequests(name, pk)
      const shown = destinations.map((one) => withSentences(one, language))
      return toWire(ItemRequestsResponse, { name, pk, record, destinations: shown }, language)
    },
  )
}

/** The JSON Schema of flow files. */
const schemaRoute: FastifyPluginAsyncZod<ControlDeps> = async (app) => {
  app.get(
    '/flow-schema',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'readFlowSchema',
        summary: 'The JSON schema of flow files, for editors',
        tags: ['Definitions'],
        response: { 200: FlowSchemaResponse },
      },
    },
    async () => flowJsonSchema(),
  )
}

const viewReadOnly = (why: WhyReadOnly | null) => ({
  readOnly: why?.message ?? null,
  readOnlyCode: why?.code ?? null,
})

const callerOf = (request: FastifyRequest): Caller => ({
  actor: actorNameOf(request),
  isAnonymous: request.isAnonymous,
})

function said(why: Reason | null, language: Language): string | null {
  return why && sentenceOf(why, language)
}

function withSentences<T extends Pick<DryRunDelivery, 'skipped' | 'refused'>>(
  { skipped, refused, ...shown }: T,
  language: Language,
) {
  return { ...shown, skipped: said(skipped, language), refused: said(refused, language) }
}

function viewDryRun(made: DryRun & { name: string }, language: Language) {
  const answer = {
    ...made,
    warnings: made.warnings.map((why) => sentenceOf(why, language)),
    records: made.records.map(({ deliveries, ...one }) => ({
      ...one,
      problem: said(one.problem, language),
      skipped: said(one.skipped, language),
      destinations: deliveries.map((each) => withSentences(each, language)),
    })),
  }
  return toWire(DryRunResponse, answer, language)
}

function viewProblems({ problems }: Checked, language: Language) {
  return problems.map((one) => viewProblem(one, language))
}
