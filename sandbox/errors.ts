/** The provider's three error bodies (provider facts 0.5). */
export type Envelope = 'orders' | 'auth' | 'legacy'

/** `cause`: the number of the cause in the legacy body, of which `code` only repeats the status. */
export type ErrorItem = { code: string; message: string; details?: string[]; cause?: number }

/** An error as the provider would answer it. Without `envelope` the path decides the body. */
export class ApiError extends Error {
  readonly status: number
  readonly items: ErrorItem[]
  readonly envelope: Envelope | undefined
  readonly headers: Record<string, string>

  constructor(
    status: number,
    items: ErrorItem | ErrorItem[],
    options: { envelope?: Envelope; headers?: Record<string, string> } = {},
  ) {
    const list = Array.isArray(items) ? items : [items]
    super(list[0]?.message ?? 'error')
    this.name = 'ApiError'
    this.status = status
    this.items = list
    this.envelope = options.envelope
    this.headers = options.headers ?? {}
  }
}

export function apiError(status: number, code: string, message: string): ApiError {
  return new ApiError(status, { code, message })
}

/** Orders and terminals answer an array; v2 POS, of the same generation, is assumed to do the same. */
export function envelopeOf(path: string): Envelope {
  return /^\/(v1\/orders|terminals|v2\/pos)(\/|$)/.test(path) ? 'orders' : 'legacy'
}

/** The body of an error answer. The status is repeated in the legacy body only. */
export function errorBody(status: number, items: ErrorItem[], envelope: Envelope): object {
  const first = items[0] ?? { code: 'error', message: 'error' }
  if (envelope === 'orders') return { errors: items.map(({ cause: _, ...item }) => item) }
  if (envelope === 'auth') return { code: first.code, message: first.message }
  const descriptions = first.details ?? (first.cause === undefined ? [] : [first.message])
  const cause = descriptions.map((description) => ({
    code: first.cause ?? first.code,
    description,
    data: null,
  }))
  return { message: first.message, error: first.code, status, cause }
}
