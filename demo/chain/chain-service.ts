import { expectStatus, request } from '../http.ts'

/** Where a chain is filled in: a running service and its sandbox. */
export type ChainService = { url: string; sandboxUrl: string; adminToken: string }

/** The chain's key, and the account that it charges to. */
export type ChainKey = { key: string; mpUserId: number }

/** A call of the service with the chain's key; answers the body. Throws for another status than those allowed. */
export async function chainCall(
  { url }: ChainService,
  { key }: ChainKey,
  method: string,
  path: string,
  body?: unknown,
  allowed: number[] = [200, 201, 202],
): Promise<Record<string, unknown>> {
  const options = { token: key, ...(body !== undefined && { body }) }
  return expectStatus(await request(method, `${url}${path}`, options), ...allowed)
}

/** A call of the sandbox's control surface; answers the body. */
export async function sandboxCall(
  { sandboxUrl }: Pick<ChainService, 'sandboxUrl'>,
  method: string,
  path: string,
  body?: unknown,
): Promise<Record<string, unknown>> {
  const options = body === undefined ? {} : { body }
  return expectStatus(await request(method, `${sandboxUrl}${path}`, options), 200, 201)
}

/** Runs `work` for each, several at a time. */
export async function forEach<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items]
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}
