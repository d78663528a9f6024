import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createFlowContext } from '../../src/flows/definition/flow-context.ts'
import { formatProblem } from '../../src/flows/loading/check-flow-files.ts'
import { loadFlows } from '../../src/flows/loading/load-flow-files.ts'
import { context, flowText } from './definition-support.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'flows-'))
})
afterEach(async () => {
  await rm(dir, { recursive: true })
})

const write = (name: string, text: string) => writeFile(join(dir, name), text)
const load = async (folder = dir) => {
  const { flows, problems } = await loadFlows(folder, context)
  return {
    loaded: flows.map(({ file, flow }) => `${file} ${flow.name}`),
    problems: problems.map(formatProblem),
  }
}

test('flow files are loaded by name, and an invalid one hides no other', async () => {
  await write(
    'b.flow.yaml',
    flowText({
      name: 'name: orders',
      destinations: 'destinations:\n  - { name: out, type: file, path: orders.ndjson }',
    }),
  )
  await write('a.flow.yml', flowText())
  await write('c.flow.yaml', 'version: [1')
  await write('d.flow.yaml', flowText({ name: 'name: Ñandú' }))
  await write('.a.flow.yaml', 'left by an editor')
  await write('readme.yaml', 'not a flow')
  expect(await load()).toEqual({
    loaded: ['a.flow.yml stores', 'b.flow.yaml orders'],
    problems: [
      'c.flow.yaml:1:12 is indented in a way that does not fit the lines above (keys of one level begin in one column, and each bracket is closed)',
      'd.flow.yaml:2:7 name: must be 1 to 64 of a-z 0-9 _ - and begin with a letter or digit',
    ],
  })
})

test('a missing folder counts as empty; a path that is not a folder is a problem', async () => {
  expect(await load(join(dir, 'nowhere'))).toEqual({ loaded: [], problems: [] })
  await write('file', '')
  expect(await load(join(dir, 'file'))).toEqual({
    loaded: [],
    problems: ['.:1:1 the folder cannot be read (ENOTDIR) (FLOWS_DIR must name a readable folder)'],
  })
})

test('two files with the same flow name are not loaded, and both have a problem at the name', async () => {
  await write('a.flow.yaml', flowText())
  await write('b.flow.yaml', `# a comment\n${flowText({ name: 'name:   stores' })}`)
  await write('c.flow.yaml', flowText({ name: 'name: other' }))
  expect(await load()).toEqual({
    loaded: ['c.flow.yaml other'],
    problems: [
      'a.flow.yaml:2:7 name: is also the name in b.flow.yaml, so none of them is loaded (rename one of them)',
      'b.flow.yaml:3:9 name: is also the name in a.flow.yaml, so none of them is loaded (rename one of them)',
    ],
  })
})

test('links are followed; folders, pipes, dead links and huge files are problems and do not block the load', async () => {
  await mkdir(join(dir, 'target'))
  await writeFile(join(dir, 'target', 'stores'), flowText())
  await symlink(join('target', 'stores'), join(dir, 'link.flow.yaml'))
  await symlink('nowhere', join(dir, 'dead.flow.yaml'))
  await mkdir(join(dir, 'folder.flow.yaml'))
  execFileSync('mkfifo', [join(dir, 'pipe.flow.yaml')])
  await write('zero.flow.yaml', '#'.repeat(10_000_000))
  expect(await load()).toEqual({
    loaded: ['link.flow.yaml stores'],
    problems: [
      'dead.flow.yaml:1:1 cannot be read (ENOENT) (the link leads nowhere)',
      'folder.flow.yaml:1:1 is not a regular file',
      'pipe.flow.yaml:1:1 is not a regular file',
      'zero.flow.yaml:1:1 is larger than 128 KiB',
    ],
  })
})

test('secrets come from variables and files, and are never shown', async () => {
  await write('token', 'from-a-file\n')
  const url = `source: { type: http, url: "\${env:ERP}", headers: { x-token: "\${file:${join(dir, 'token')}}" } }`
  await write('a.flow.yaml', flowText({ source: url }))
  const own = createFlowContext(
    { ERP: 'https://erp.example.com/?key=from-a-variable' },
    context.mail,
    { variables: new Set(), files: [], folders: [] },
  )
  const { flows, problems } = await loadFlows(dir, own)
  expect(problems).toEqual([])
  const source = flows[0]?.flow.source
  if (source?.type !== 'http') throw new Error('no http source')
  expect(source.url.reveal()).toBe('https://erp.example.com/?key=from-a-variable')
  expect(source.headers['x-token']?.reveal()).toBe('from-a-file')
  expect(JSON.stringify(flows)).not.toContain('from-a')

  execFileSync('mkfifo', [join(dir, 'pipe')])
  for (const path of ['pipe', 'nowhere', '.']) {
    expect(() => own.readFile(join(dir, path))).toThrow()
  }
})

test.skipIf(process.getuid?.() === 0)('a file without permission is a problem', async () => {
  await write('a.flow.yaml', flowText())
  await chmod(join(dir, 'a.flow.yaml'), 0)
  expect((await load()).problems).toEqual(['a.flow.yaml:1:1 cannot be read (EACCES)'])
})
