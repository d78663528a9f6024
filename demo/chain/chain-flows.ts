import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { chain } from './chain-plan.ts'

const kinds = ['precios', 'stock', 'clientes', 'promociones', 'pedidos']
const itemsEach = 20
/** Nothing listens there, so these destinations rest after failures. */
const nowhere = 'http://127.0.0.1:9'
const failing = ['stock-3', 'precios-7']

/**
 * The flow files of the chain by file name: five kinds of data for each of ten stores, from JSON files in `dir` to
 * `targetUrl`.
 */
export function chainFlowFiles(targetUrl: string, dir: string): Record<string, string> {
  const files: Record<string, string> = {}
  for (let at = 0; at < chain.flows; at += 1) {
    const kind = kinds[at % kinds.length] as string
    const store = Math.floor(at / kinds.length) + 1
    const name = `${kind}-${store}`
    const items = Array.from({ length: itemsEach }, (_, item) => ({
      id: `A-${item + 1}`,
      sucursal: `SUC-${store}`,
      valor: (item + 1) * 100 + store,
    }))
    files[`${name}.json`] = JSON.stringify(items)
    files[`${name}.flow.yaml`] = JSON.stringify(
      flowOf(name, join(dir, `${name}.json`), failing.includes(name) ? nowhere : targetUrl),
      undefined,
      2,
    )
  }
  return files
}

function flowOf(name: string, path: string, targetUrl: string): object {
  return {
    version: 1,
    name,
    pollInterval: '5m',
    allowPrivateNetwork: true,
    source: { type: 'file', path, format: 'json', settle: '0s' },
    item: { key: 'id' },
    destinations: [
      {
        name: 'tienda',
        type: 'http',
        request: { method: 'PUT', url: `${targetUrl}/${name}/{pk}` },
        retry: { attempts: 20, initial: '5s', max: '5m' },
        breaker: { failures: 3, within: '1m', openFor: '5m' },
      },
    ],
  }
}

/** Writes the flow files and the files that they read, into folders that are made. */
export async function writeChainFlows(
  targetUrl: string,
  { flowsDir, filesDir }: { flowsDir: string; filesDir: string },
): Promise<void> {
  for (const dir of [flowsDir, filesDir]) await mkdir(dir, { recursive: true })
  for (const [name, text] of Object.entries(chainFlowFiles(targetUrl, filesDir))) {
    await writeFile(join(name.endsWith('.flow.yaml') ? flowsDir : filesDir, name), text)
  }
}
