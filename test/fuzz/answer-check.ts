import { errorCatalogue } from '../../src/errors/app-error.ts'
import { type Document, describeErrors, type Operation } from './document.ts'
import type { Answer } from './send.ts'

/** A rule of the document that an answer breaks. `kind` is the same for one cause. */
export type Breach = { kind: string; text: string }

export type AnswerCheck = (method: string, target: string, answer: Answer) => Breach[]

/** Pages and their parts, which the documents leave out. */
const pagePaths =
  /^\/(?:$|docs(?:\/|$)|guide(?:\/|$)|dashboard(?:\/|$)|admin\/?$|admin\/(?:index\.html|page\.(?:js|css))$|shared\/|vendor\/|openapi\.json$)/
const pageStatuses = [200, 302, 304, 400, 404, 422]

/** Shapes of secrets, whichever they are: client keys, tokens and grants of the provider. */
const secretShapes = /mk_[0-9a-f]{64}|APP_USR-\d+-\d+-[0-9a-f]{32}-\d+|TG-[0-9a-f]{24}-\d+/
const innards = /node:internal|node_modules|\/src\/[a-z-]+\/|\.ts:\d+|select .+ from |insert into /i

/**
 * A key is shown once, when it is made; tokens of the provider are shown to the administrator, as the contract asks; and the
 * documents have an example of a key.
 */
const secretsShown = new Set([
  'POST /api-keys',
  'GET /admin/clients/{clientName}',
  '/openapi.json',
  '/docs/json',
])

/** Headers that every answer of either listener carries. */
const everywhere: Record<string, RegExp> = {
  'content-security-policy': /default-src 'none'.*frame-ancestors 'none'/,
  'x-content-type-options': /^nosniff$/,
  'x-frame-options': /^DENY$/i,
  'referrer-policy': /^(no-referrer|same-origin)$/,
  'x-api-version': /^1$/,
  'x-request-id': /^[A-Za-z0-9._-]{1,64}$/,
  'cache-control': /./,
}

export function createAnswerCheck(
  document: Document,
  style: 'coded' | 'plain',
  canaries: () => readonly string[],
): AnswerCheck {
  const errorBody = document.named(style === 'coded' ? 'ErrorBody' : 'PlainErrorBody')

  const checkError = (
    answer: Answer,
    body: unknown,
    operation: Operation | undefined,
  ): Breach[] => {
    if (!errorBody(body)) return [{ kind: 'error shape', text: describeErrors(errorBody.errors) }]
    if (style === 'plain') return []
    const { code } = body as { code: keyof typeof errorCatalogue }
    const { status } = errorCatalogue[code]
    if (status !== answer.status)
      return [{ kind: `status of ${code}`, text: `is ${status} in the catalogue` }]
    const { description } = operation?.responses.get(answer.status) ?? {}
    if (description !== undefined && !description.includes(`\`${code}\``)) {
      return [{ kind: `code ${code}`, text: 'is not among the codes of this status' }]
    }
    return []
  }

  /** What was asked for is no route, or a page. */
  const judgeUndocumented = (path: string, answer: Answer): Breach[] => {
    const isPage = pagePaths.test(path)
    const statuses = isPage ? pageStatuses : [400, 404]
    if (!statuses.includes(answer.status)) {
      return [{ kind: `status ${answer.status} of no route`, text: path }]
    }
    if (answer.status < 400 || answer.method === 'HEAD') return []
    return checkError(answer, parsed(answer), undefined)
  }

  const judgeDocumented = (operation: Operation, answer: Answer): Breach[] => {
    const response = operation.responses.get(answer.status)
    if (!response) return [{ kind: `status ${answer.status}`, text: 'is not listed' }]
    const [type = ''] = (answer.headers['content-type'] ?? '').split(';')
    if (response.types.length === 0) {
      return answer.body === '' ? [] : [{ kind: `body of ${answer.status}`, text: 'is not listed' }]
    }
    if (!response.types.includes(type)) {
      return [{ kind: `type ${type} of ${answer.status}`, text: 'is not listed' }]
    }
    const validate = response.validator(type)
    const body = type === 'application/json' ? parsed(answer) : answer.body
    if (!validate(body))
      return [{ kind: `body of ${answer.status}`, text: describeErrors(validate.errors) }]
    return answer.status >= 400 && type === 'application/json'
      ? checkError(answer, body, operation)
      : []
  }

  return (method, target, answer) => {
    const breaches: Breach[] = []
    if (answer.status === 500) breaches.push({ kind: 'status 500', text: 'a failure of ours' })
    const operation = document.find(method, target)
    const [path = ''] = target.split(/[?#]/, 1)
    breaches.push(
      ...(operation ? judgeDocumented(operation, answer) : judgeUndocumented(path, answer)),
    )

    for (const [name, shape] of Object.entries(everywhere)) {
      const value = answer.headers[name]
      if (value === undefined || !shape.test(value))
        breaches.push({ kind: `header ${name}`, text: `is ${value}` })
    }
    if (
      [429, 503].includes(answer.status) &&
      !/^[1-9]\d*$/.test(answer.headers['retry-after'] ?? '')
    ) {
      breaches.push({ kind: `no retry-after of ${answer.status}`, text: '' })
    }

    const whole = `${JSON.stringify(answer.headers)}\n${answer.body}`
    const showsSecrets = answer.status < 300 && secretsShown.has(operation?.name ?? path)
    const leaked = canaries().find((canary) => whole.includes(canary))
    if (leaked !== undefined) breaches.push({ kind: 'a secret', text: `${leaked.slice(0, 12)}…` })
    const shaped = secretShapes.exec(whole)?.[0]
    if (shaped !== undefined && !showsSecrets)
      breaches.push({ kind: 'the shape of a secret', text: `${shaped.slice(0, 12)}…` })
    if (answer.status >= 400 && innards.test(answer.body))
      breaches.push({ kind: 'innards', text: answer.body.slice(0, 200) })
    return breaches
  }
}

function parsed({ body }: Answer): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}
