import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { type Answer, expectStatus, request } from './http.ts'
import type { ServiceProcess } from './service-process.ts'
import type { Steps } from './steps.ts'

/** The other system of the demo: a web shop that takes articles by HTTP. */
export type Shop = {
  url: string
  /** Articles by code, as they were last put. */
  articles: Map<string, unknown>
  close(): Promise<void>
}

export async function openShop(): Promise<Shop> {
  const articles = new Map<string, unknown>()
  const server = createServer(async (incoming, response) => {
    const text = await textOf(incoming)
    // Others may ask too, such as a person who tries the connection.
    if (incoming.method !== 'PUT') return response.writeHead(404).end()
    const code = decodeURIComponent(incoming.url?.split('/').at(-1) ?? '')
    articles.set(code, JSON.parse(text))
    return response.writeHead(200).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    articles,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function textOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

const withinMs = 30_000

/** Lets the sample flows run once and waits until everything pending has arrived. */
export async function playFlows(
  service: ServiceProcess,
  key: string,
  shop: Shop,
  steps: Steps,
): Promise<void> {
  const { syncUrl } = service

  const names = await steps.step('Read the flow files', async () => {
    const body = expectStatus(await whenLoaded(() => request('GET', `${syncUrl}/flows`)))
    const flows = (body.flows as { name: string }[]).map(({ name }) => name)
    const problems = body.problems as { file: string; message: string }[]
    const [problem] = problems
    if (problem) throw new Error(`${problem.file}: ${problem.message}`)
    return { shown: flows.join(', '), value: flows }
  })

  await steps.step('Poll the ERP files and deliver what is new', async () => {
    let changes = 0
    for (const name of names) {
      const answer = await whenSettled(() => request('POST', `${syncUrl}/sync/${name}?force=true`))
      changes += Number(expectStatus(answer).changes)
      await keepMoved(syncUrl, name)
    }
    const stats = await settled(syncUrl)
    return {
      shown: `${changes} new or changed items; ${stats.processed} deliveries so far, ${stats.errors} failed`,
      value: undefined,
    }
  })

  await steps.step('Look at both ends', async () => {
    const body = expectStatus(await request('GET', `${service.url}/stores`, { token: key }))
    const stores = body.stores as { pos: unknown[] }[]
    const boxes = stores.reduce((sum, store) => sum + store.pos.length, 0)
    // A flow sends what has changed: what the first demo on the same data has sent is not sent again.
    const got =
      shop.articles.size > 0
        ? `the web shop got ${shop.articles.size} articles`
        : 'nothing has changed for the web shop since the last time'
    return {
      shown: `the provider has ${stores.length} stores with ${boxes} boxes, ${got}`,
      value: undefined,
    }
  })
}

/** The shop of each demo listens at another port. It is the same shop: what an earlier demo sent there counts. */
async function keepMoved(syncUrl: string, name: string): Promise<void> {
  const path = `${syncUrl}/flow/${name}/question`
  const { state, number } = expectStatus(await request('GET', path))
  if (state !== 'asked') return
  expectStatus(await request('POST', path, { body: { number, answer: 'keep' } }))
}

type Stats = {
  queue: { waiting: number; active: number; delayed: number }
  processed: number
  errors: number
}

async function settled(syncUrl: string): Promise<Stats> {
  const until = performance.now() + withinMs
  for (;;) {
    const stats = expectStatus(await request('GET', `${syncUrl}/stats`)) as Stats
    const { waiting, active, delayed } = stats.queue
    if (waiting + active + delayed === 0) return stats
    if (performance.now() > until) {
      throw new Error(
        `${waiting + active + delayed} deliveries did not arrive: ${JSON.stringify(stats)}`,
      )
    }
    await wait(50)
  }
}

/** The flows are loaded after the listener opens; until then it answers 503 with Retry-After. */
function whenLoaded(ask: () => Promise<Answer>): Promise<Answer> {
  return askUntil(ask, ({ status }) => status !== 503)
}

/** The demo has just written the ERP's files, and a flow leaves a file alone for 5 s after a change. */
function whenSettled(ask: () => Promise<Answer>): Promise<Answer> {
  return askUntil(ask, ({ body }) => (body.why as { code?: string })?.code !== 'FILE_SETTLING')
}

async function askUntil(
  ask: () => Promise<Answer>,
  isAnswered: (answer: Answer) => boolean,
): Promise<Answer> {
  const until = performance.now() + withinMs
  for (;;) {
    const answer = await ask()
    if (isAnswered(answer) || performance.now() > until) return answer
    await wait(200)
  }
}
