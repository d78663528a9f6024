import type { TestService } from './service.ts'
import { sandboxCall } from './till.ts'

export type ProviderRequest = {
  method: string
  path: string
  query: string
  headers: Record<string, string>
  body: unknown
  user_id: number | null
  status: number | null
}

/** What the provider was asked since `forgetRequests`, in order; `methods` keeps these only. */
export async function providerRequests(
  service: TestService,
  methods: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
): Promise<ProviderRequest[]> {
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: ProviderRequest[]
  }
  return requests.filter(({ method }) => methods.includes(method))
}

export async function forgetRequests(service: TestService): Promise<void> {
  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
}

/** Makes calls to the provider misbehave until `noFaults`. */
export async function faults(service: TestService, ...rules: object[]): Promise<void> {
  await sandboxCall(service, 'PUT', '/_sandbox/faults', rules)
}

export async function noFaults(service: TestService): Promise<void> {
  await sandboxCall(service, 'DELETE', '/_sandbox/faults')
}

/** Stores and boxes that an account has at the provider, by their ids there. */
export async function atProvider(service: TestService, userId: number) {
  const state = (await sandboxCall(service, 'GET', '/_sandbox/state')) as {
    stores: { id: number; user_id: number; name: string; external_id: string }[]
    pos: { id: number; user_id: number; name: string; external_id: string; store_id: number }[]
  }
  return {
    stores: state.stores.filter((store) => store.user_id === userId),
    pos: state.pos.filter((box) => box.user_id === userId),
  }
}
