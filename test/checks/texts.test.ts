import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

/** The texts of a source file that stand under a language, without their placeholders. */
function textsOf(source: string): string[] {
  const found = source.matchAll(/\b(?:es|en|pt):\s*(['"`])(.*?)\1/g)
  return [...found].map(([, , text]) => text?.replaceAll(/\{[^}]*\}/g, '') ?? '')
}

test('no text for people has a name of the code in it', () => {
  const texts = globSync('src/**/*.ts').flatMap((file) => textsOf(readFileSync(file, 'utf8')))
  expect(texts.length).toBeGreaterThan(100)
  expect(texts.filter((text) => /[a-z][A-Z]/.test(text))).toEqual([])
})
