import { startProviderProxy } from './provider-proxy.ts'
import { startTestService } from './service.ts'

/** A service whose provider shows payments as the sandbox never does. */
export async function startWithOddPayments(options: Parameters<typeof startTestService>[0] = {}) {
  const proxy = await startProviderProxy()
  const service = await startTestService({ ...options, provider: { apiUrl: proxy.url } })
  proxy.target = service.sandbox.url
  /** By the id of a payment: members that replace those of it wherever it is shown, or null where the search does not show it. */
  const shownAs = new Map<string, Record<string, unknown> | null>()
  const show = (row: Record<string, unknown>) => ({ ...row, ...shownAs.get(String(row.id)) })
  proxy.alter = ({ status, body }, { method, path }) => {
    if (method !== 'GET' || !path.startsWith('/v1/payments/')) return undefined
    const { results } = body as { results?: Record<string, unknown>[] }
    if (results === undefined) return { status, body: show(body) }
    const found = results.filter(({ id }) => shownAs.get(String(id)) !== null)
    return { status, body: { ...body, results: found.map(show) } }
  }
  return {
    service,
    shownAs,
    async stop() {
      await service.stop()
      await proxy.close()
    },
  }
}
