import { afterAll, beforeAll, expect, test } from 'vitest'
import { connectionsHead, flowFromTemplate } from '../../src/flows/definition/flow-template.ts'
import { startTarget, startTestFlows, type TestFlows, type TestTarget } from '../support/flows.ts'

/** The template of `flows:new` for an API of one's own, as it is but for its source: values may be NULL, as in a table. */
let flows: TestFlows
let target: TestTarget

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ env: { API_URL: `${target.url}/api`, API_TOKEN: 'canary-api' } })
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

const lastSent = () =>
  target.received.splice(0).map(({ method, path, body }) => [method, path, body] as const)

test('NULL in a table reaches an own API as null or 0; what is gone is deleted, also when the API no longer has it', {
  tags: ['long'],
}, async () => {
  const { text, connections } = flowFromTemplate({ template: 'own-api', name: 'articulos' })
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the connections
  const folder = ['${env:ERP_CARPETA}', '${env:DIR}'] as const
  const all = `${connectionsHead}${Object.values(connections).join('')}`
    .replace(...folder)
    .replace('    # allowPrivateNetwork', '    allowPrivateNetwork')
  await flows.write('connections.yaml', all)
  const source =
    'source: { type: file, connection: erp-archivos, path: articulos.json, format: json, settle: 0s }\nitem:'
  await flows.write('articulos.flow.yaml', text.replace(/source:[\s\S]*?\nitem:/, source))
  const bring = async (...items: object[]) => {
    await flows.write('articulos.json', items)
    await flows.call('POST', '/sync/articulos')
    await flows.ended()
    return lastSent()
  }
  const whole = { codigo: 'A-1', descripcion: ' Yerba ', precio: '5250.00', stock: '12' }
  const empty = { codigo: 'A-2', descripcion: null, precio: null, stock: null }
  await flows.write('articulos.json', [])
  expect((await flows.call('POST', '/flows/reload')).json()).toMatchObject({ problems: [] })
  const sent = await bring(whole, empty)
  expect(sent.toSorted(([, one], [, next]) => one.localeCompare(next))).toEqual([
    [
      'PUT',
      '/api/articulos/A-1',
      { codigo: 'A-1', descripcion: 'Yerba', precio: '5250.00', stock: 12 },
    ],
    ['PUT', '/api/articulos/A-2', { codigo: 'A-2', descripcion: null, precio: null, stock: 0 }],
  ])
  target.answer(404)
  expect(await bring(whole)).toEqual([['DELETE', '/api/articulos/A-2', undefined]])
  const { failures } = (await flows.call('GET', '/flow/articulos/failures')).json()
  expect(failures).toEqual([])
})
