import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import {
  connectionsHead,
  flowFromTemplate,
  type TemplateName,
} from '../../../src/flows/definition/flow-template.ts'
import { startTestFlows } from '../../support/flows.ts'

const soon = { timeout: 20_000, interval: 20 }

export type Article = {
  codigo: string
  descripcion?: string
  precio: string
  stock: string
  mercadolibre?: string
}

/** A flow from a template, as it is but for addresses and pauses. */
export async function serve(
  template: TemplateName,
  env: Record<string, string>,
  change: (text: string) => string = (text) => text,
) {
  const { text, connections } = flowFromTemplate({ template, name: 'articulos', schema: 'x.json' })
  const adapted = change(text)
    .replace('pollInterval: 1m', 'pollInterval: 1h\nallowPrivateNetwork: true')
    .replace('settle: 5s', 'settle: 0s')
    .replaceAll(
      '    type: http\n',
      '    type: http\n    retry: { attempts: 5, initial: 100ms, max: 100ms, jitter: 0 }\n',
    )
  const flows = await startTestFlows({ env })
  onTestFinished(() => flows.stop())
  const all = change(`${connectionsHead}${Object.values(connections).join('')}`)
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the connections
  await flows.write('connections.yaml', all.replace('${env:ERP_CARPETA}', '${env:DIR}'))
  await flows.write(
    'articulos.flow.yaml',
    adapted.replaceAll('MELI_USER_ID', env.MELI_USER_ID ?? ''),
  )
  let version = 0
  /** The ERP writes its file and the flow polls; resolves when all of it arrived or failed for good. */
  const bring = async (...articles: Article[]) => {
    const lines = articles.map(
      ({ codigo, descripcion = codigo, precio, stock, mercadolibre = 'S' }) =>
        [codigo, descripcion, precio, stock, mercadolibre].join(';'),
    )
    const csv = `codigo;descripcion;precio;stock;mercadolibre\r\n${lines.join('\r\n')}\r\n`
    await writeFile(join(flows.dir, 'articulos.csv'), csv, 'latin1')
    version += 1
    if (version === 1) {
      const reloaded = await flows.call('POST', '/flows/reload')
      expect(reloaded.json()).toMatchObject({ problems: [] })
    }
    const polled = await flows.call('POST', '/sync/articulos')
    expect(polled.statusCode, polled.body).toBeLessThan(300)
    // Those that wait for another attempt too.
    const countOpen = async () =>
      (await flows.call('GET', '/flow/articulos/waiting')).json().waiting.length
    await expect.poll(countOpen, soon).toBe(0)
  }
  const failures = async () =>
    (await flows.call('GET', '/flow/articulos/failures')).json().failures as {
      items: number
      cause: string
      /** Of its first item. */
      error: string
    }[]
  return { flows, bring, failures }
}

export const article = (codigo: string, precio: string, stock = '3'): Article => ({
  codigo,
  precio,
  stock,
})

export const seller = {
  user: '8035443',
  clientId: '4242',
  clientSecret: 'canary-meli-secret',
  refreshToken: 'TG-canary-first',
}
export const sellerEnv = {
  MELI_APP_ID: seller.clientId,
  MELI_APP_SECRET: seller.clientSecret,
  MELI_USER_ID: seller.user,
  MELI_REFRESH_TOKEN: seller.refreshToken,
}
