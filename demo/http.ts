/** A small JSON client, as an ERP programmer would write one. */
export type Answer = { status: number; body: Record<string, unknown>; location: string | null }

export async function request(
  method: string,
  url: string,
  options: { token?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    redirect: 'manual',
    headers: {
      ...(options.token && { 'x-api-token': options.token }),
      ...(options.body !== undefined && { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') ?? false
  return {
    status: response.status,
    body: isJson && text !== '' ? JSON.parse(text) : {},
    location: response.headers.get('location'),
  }
}

/** The body of an answer that must have one of these statuses; 200 unless said. */
export function expectStatus(answer: Answer, ...allowed: number[]): Record<string, unknown> {
  if (!(allowed.length > 0 ? allowed : [200]).includes(answer.status)) {
    throw new Error(`status ${answer.status}: ${JSON.stringify(answer.body)}`)
  }
  return answer.body
}
