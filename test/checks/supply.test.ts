import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  type Lockfile,
  licenceProblems,
  lockfileProblems,
  productionOnly,
} from '../../checks/supply.ts'

const read = (file: string) =>
  JSON.parse(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8'))
const lock: Lockfile = read('package-lock.json')

function changed(path: string, fields: Lockfile['packages'][string]): Lockfile {
  return { packages: { ...lock.packages, [path]: { ...lock.packages[path], ...fields } } }
}

test('T48: every package of the service is under an allowed licence; another one, or none, is named', () => {
  expect(licenceProblems(lock)).toEqual([])
  expect(licenceProblems(changed('node_modules/fastify', { license: 'AGPL-3.0' }))).toEqual([
    `node_modules/fastify@${lock.packages['node_modules/fastify']?.version}: AGPL-3.0`,
  ])
  expect(licenceProblems(changed('node_modules/new', { version: '1.0.0' }))).toEqual([
    'node_modules/new@1.0.0: no licence',
  ])
  // What only its developers use is not passed on.
  expect(licenceProblems(changed('node_modules/new', { license: 'GPL-3.0', dev: true }))).toEqual(
    [],
  )
})

test('T48: the lockfile fixes the content of every package and names no place to fetch it from', () => {
  expect(lockfileProblems(lock)).toEqual([])
  for (const [fields, problem] of [
    [{ resolved: 'http://evil.example/fastify.tgz' }, 'names an address'],
    [{ resolved: 'git+ssh://git@evil.example/fastify.git#main' }, 'names an address'],
    [{ integrity: 'sha1-2fd4e1c67a2d28fced849ee1bb76e7391b93eb12' }, 'has no SHA-512'],
    [{ integrity: '' }, 'has no SHA-512'],
    [{ link: true }, 'is a link'],
  ] as const) {
    const problems = lockfileProblems(changed('node_modules/fastify', fields))
    expect(problems).toEqual([expect.stringMatching(`^node_modules/fastify: ${problem}`)])
  }
})

test('T48: the bill of materials holds every package of the service, and none of its developers', () => {
  const kept = productionOnly(read('package.json'), lock)
  expect(kept.manifest).not.toHaveProperty('devDependencies')
  expect(kept.lock.packages['']).not.toHaveProperty('devDependencies')
  for (const name of Object.keys(read('package.json').dependencies)) {
    expect(kept.lock.packages).toHaveProperty([`node_modules/${name}`])
  }
  for (const name of Object.keys(read('package.json').devDependencies)) {
    const path = `node_modules/${name}`
    expect(path in kept.lock.packages, name).toBe(lock.packages[path]?.dev !== true)
  }
  expect(kept.lock.packages).not.toHaveProperty(['node_modules/vitest'])
})
