import type { ProviderRequest } from './money.ts'
import type { TestService } from './service.ts'
import { sandboxCall } from './till.ts'

/** The requests to the provider with these methods since `forgetRequests`, in order. */
export async function providerCalls(
  service: TestService,
  methods: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
): Promise<ProviderRequest[]> {
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: ProviderRequest[]
  }
  return requests.filter(({ method }) => methods.includes(method))
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
