import { reference, Secret } from '../../domain/flow-secret.ts'
import type { Model } from '../api/api-model.ts'
import { compileBatch } from '../destinations/http-batch.ts'
import { compileRequest, type RequestTemplate } from '../destinations/http-request.ts'
import type { DeliveryJob, DestinationDefinition, HttpDefinition } from '../types.ts'
import type { RequestPreviewSchema } from './workbench-schemas.ts'

/** A request for display. It shows the references of the flow file instead of their values. */
type RequestPreview = Model<typeof RequestPreviewSchema>

type RequestPreviewer = (job: DeliveryJob) => Promise<RequestPreview[]>

/**
 * Creates the function that shows the requests for an upsert. It never shows a secret: templates are filled with the
 * references instead of their values. Rejects with TemplateError and BatchError like deliveries.
 */
export function compileRequestPreviews(
  definition: DestinationDefinition,
  now: () => Date,
): RequestPreviewer {
  switch (definition.type) {
    case 'http':
      return httpPreviewer(definition, now)
    case 'sql':
      return async ({ body }) => [plain('row', definition.table, body)]
    case 'file':
      return async ({ body }) => [plain('line', definition.path, body)]
    case 'payments.stores':
    case 'payments.pos':
      return async ({ body }) => [plain('payments', definition.client, body)]
  }
}

function plain(purpose: RequestPreview['purpose'], target: string, body: unknown): RequestPreview {
  return { purpose, method: null, target, headers: {}, body }
}

function httpPreviewer(definition: HttpDefinition, now: () => Date): RequestPreviewer {
  const { find = [], create, request, batch, sign, auth } = definition
  const names = createNames()
  const compile = (template: RequestTemplate) =>
    compileRequest(withNames(template, names), { send: definition.send, now })
  const together = batch && {
    template: compile(batch.request ?? request),
    rules: compileBatch(batch, neverJudged, (text) => text),
  }
  const lookups = find.filter(({ fresh }) => !fresh).map(compile)
  const ways = {
    create: create && compile(create),
    // A batch without its own request uses the single request.
    update: batch && !batch.request ? undefined : compile(request),
  }

  const shown = async (
    purpose: RequestPreview['purpose'],
    maker: ReturnType<typeof compile>,
    job: DeliveryJob,
  ): Promise<RequestPreview> => {
    const { method, url, headers, body } = await maker.make(job)
    const own = Object.keys(maker.template.headers).map((name) => name.toLowerCase())
    return {
      purpose,
      method,
      target: names.shown(url),
      headers: {
        ...Object.fromEntries(
          Object.entries(headers).map(([name, value]) => [name, names.shown(value)]),
        ),
        ...(!own.includes('idempotency-key') && { 'idempotency-key': '{jobKey}' }),
        ...(auth && { authorization: 'Bearer [auth]' }),
        ...(sign && { [sign.header.toLowerCase()]: `${sign.prefix}[sign]` }),
      },
      body: body === undefined ? null : names.shown(body),
    }
  }

  return async (job) => {
    const requests: RequestPreview[] = []
    if (together) {
      const body = await together.rules.bodyOf([job])
      requests.push(await shown('batch', together.template, { ...job, pk: '', body }))
      return requests
    }
    const [first] = lookups
    if (!job.remembered && first) requests.push(await shown('find', first, job))
    if (!job.remembered && ways.create) requests.push(await shown('create', ways.create, job))
    else if (ways.update && (job.remembered || !first)) {
      requests.push(await shown('update', ways.update, job))
    }
    return requests
  }
}

/** No request is sent, so there is no response to classify. */
const neverJudged: Parameters<typeof compileBatch>[1] = {
  judgeRetry: () => noAnswer(),
  judgeForeign: () => noAnswer(),
  judgeStatus: () => noAnswer(),
  isRetried: () => noAnswer(),
}

function noAnswer(): never {
  throw new Error('a request that is only shown has no answer')
}

/** Substitutes for references while a request is built: `${env:NAME}` would make an address invalid. */
type Names = { wordFor(text: string, isStart: boolean): string; shown(text: string): string }

function createNames(): Names {
  const words: { word: string; text: string }[] = []
  return {
    wordFor(text, isStart) {
      const name = `reference-${words.length}.invalid`
      const word = isStart ? `https://${name}` : name
      words.push({ word, text })
      return word
    },
    shown: (text) =>
      words.reduce((whole, { word, text: name }) => whole.replaceAll(word, () => name), text),
  }
}

function withNames(template: RequestTemplate, names: Names): RequestTemplate {
  const named = (secret: Secret, isAddress: boolean) =>
    new Secret(
      [
        {
          text: secret.template.replace(reference, (whole, _kind, _name, offset: number) =>
            names.wordFor(whole, isAddress && offset === 0),
          ),
          isWritten: true,
        },
      ],
      secret.template,
    )
  const headers = Object.entries(template.headers).map(([name, value]): [string, Secret] => [
    name,
    named(value, false),
  ])
  return { ...template, url: named(template.url, true), headers: Object.fromEntries(headers) }
}
