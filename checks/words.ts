import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import writeGood from 'write-good'

/** Most words of a sentence. */
export const longest = 30

/** Words that have a standard term, or that say things sideways. */
const banned = [
  ...['errand', 'deed', 'twin', 'stranger', 'hush', 'tenure', 'wish', 'drift', 'mend', 'mended'],
  ...['nobody', 'somebody', 'someone', 'anybody', 'anyone', 'whoever', 'besides', 'anew'],
  ...['owe', 'owed', 'owes', 'told', 'hear', 'hears', 'hang up', 'hung up', 'hangs up'],
  ...['at rest', 'rests', 'resting', 'left alone', 'looked at', 'looks at', 'in hand', 'at hand'],
  ...['let through', 'lets through', 'taken in', 'take in', 'takes in'],
  ...['given back', 'give back', 'gives back', 'gave back', 'stands for', 'stand for'],
  ...['for long', 'once more', 'of use', 'lately', 'failed for good', 'it is tried again'],
] as const
const bannedWords = new RegExp(`\\b(?:${banned.join('|')})\\b`, 'gi')
/** Spanish addresses the reader as "vos", and a "proveedor" is the supplier of a shop. */
const bannedSpanish = [
  /(?<![\p{L}\p{N}])\p{L}*[áéíóú]\p{L}*(?<=[ea])(?<!áse)(?:lo|la|le)s?(?!\p{L})/gu,
  /(?<![\p{L}\p{N}])(?:Revise|Elija|Vuelva|Pida|Mire|Haga|Devuelva|Ponga|Llame|Escriba|Ingrese|Pague|Conecte|Cree|Acerque|Copie|indique)(?!\p{L})/gu,
  /(?<![\p{L}\p{N}])(?:usted|proveedor|descansa|descanso|se le debe|alguien diga)(?!\p{L})/giu,
]

/** What comments of the code do not say: a person's word for a machine, or no word for who acts. */
const bannedComments = new RegExp(
  `\\b(?:${[
    ...['told', 'owe', 'owed', 'owes', 'owing', 'hear', 'hears', 'heard', 'wish', 'wishes'],
    ...['nobody', 'somebody', 'anybody', 'whoever', 'strangers?', 'errands?', 'deeds?', 'twins?'],
    ...[
      'anew',
      'stands? for',
      'stood for',
      'lets? through',
      'given back',
      'gives? back',
      'gave back',
    ],
    ...[
      'rests',
      'resting',
      'rested',
      'at rest',
      'left alone',
      'in hand',
      'at hand',
      'hush',
      'tenure',
    ],
  ].join('|')})\\b`,
  'gi',
)
/** Parts that no name has. */
const bannedParts = new Set([
  ...['owe', 'owed', 'owes', 'owing', 'errand', 'deed', 'stranger', 'hush', 'anew'],
  ...['nobody', 'somebody', 'anybody', 'whoever'],
])

/** Why the comments and names of a file are not checked. */
const formerNames: Readonly<Record<string, string>> = {
  'src/fleet/former-causes.ts': 'names that the version before stored',
  'checks/words.ts': 'it lists the words',
}

/** A line for each comment and each name of the code that has a standard term. */
export function checkCode(root: string): string[] {
  return globSync('{src,checks,demo,ops}/**/*.ts', { cwd: root })
    .filter((file) => formerNames[file] === undefined)
    .flatMap((file) => {
      const source = readFileSync(join(root, file), 'utf8')
      return [...wrongComments(file, source), ...wrongNames(file, source)]
    })
    .sort()
}

/** A line for each comment with a banned word. */
export function wrongComments(file: string, source: string): string[] {
  const comments = [...source.matchAll(literals)].map(([text]) => text)
  return comments
    .filter((text) => text.startsWith('/'))
    .map((text) => text.replaceAll(/\s*\n\s*\*\s?|\s+/g, ' '))
    .flatMap((text) =>
      (text.match(bannedComments) ?? []).map((word) => `${file}: ${word}: ${text}`),
    )
}

/** A line for each name with a banned part, such as `isOwed`. Texts and comments do not count. */
export function wrongNames(file: string, source: string): string[] {
  const names = new Set(source.replaceAll(literals, ' ').match(/[A-Za-z_$][\w$]*/g))
  return [...names]
    .filter((name) => partsOf(name).some((part) => bannedParts.has(part)))
    .map((name) => `${file}: ${name}`)
}

function partsOf(name: string): string[] {
  return name.split(/(?<=[a-z0-9])(?=[A-Z])|_/).map((part) => part.toLowerCase())
}

/** What an English file for users says: its sentences, and what is wrong with them. */
export type Readability = {
  file: string
  sentences: number
  passive: number
  tooLong: string[]
  bannedWords: string[]
}

/** Checks the English pages of docs/, without the internals, and the English texts of the pages in the browser. */
export function checkWords(root: string): Readability[] {
  const documents = globSync('docs/**/*.md', { cwd: root }).filter(
    (file) => !/^docs\/(internals|es)\//.test(file),
  )
  const texts = globSync('public/*/texts/*.js', { cwd: root }).filter((file) =>
    /\ben\b/.test(file.replace(/.*\//, '')),
  )
  return ['README.md', ...documents, ...texts].sort().map((file) => {
    const source = readFileSync(join(root, file), 'utf8')
    return measureText(file, source)
  })
}

/** The same of the Spanish pages of docs/ and the Spanish texts of the pages in the browser. */
export function checkSpanish(root: string): Readability[] {
  const texts = globSync('public/*/texts/*.js', { cwd: root }).filter((file) =>
    /\bes\b/.test(file.replace(/.*\//, '')),
  )
  return [...globSync('docs/es/*.md', { cwd: root }), ...texts].sort().map((file) => {
    const source = readFileSync(join(root, file), 'utf8')
    const { sentences, tooLong } = measureText(file, source)
    const passive = source.match(spanishPassive)?.length ?? 0
    const parts = file.endsWith('.md') ? proseOf(source) : textsOf(source)
    const wrong = parts.flatMap((text) => wrongSpanish(file, text))
    return { file, sentences, passive, tooLong, bannedWords: wrong }
  })
}

const spanishPassive =
  /(?<!\p{L})(?:es|son|fue|fueron|era|eran|será|serán|sea|sean|sido)\s+\p{L}+(?:ad|id)[oa]s?(?!\p{L})/gu

/** The banned words of answers, log lines, help, alerts and descriptions of the API, in both languages. */
export function checkMessages(root: string): string[] {
  const read = (file: string) => readFileSync(join(root, file), 'utf8')
  const sources = globSync('{src,demo}/**/*.{ts,js}', { cwd: root })
  const messages = sources.flatMap((file) => {
    return sentencesOf(read(file)).flatMap((text) => [
      ...wrongEnglish(file, text),
      ...wrongSpanish(file, text),
    ])
  })
  return [
    ...messages,
    ...['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', '.env.example'].flatMap((file) =>
      proseOf(read(file)).flatMap((text) => wrongEnglish(file, text)),
    ),
  ].sort()
}

/** A line for each banned word of a text. */
export function wrongEnglish(file: string, text: string): string[] {
  return (text.match(bannedWords) ?? []).map((word) => `${file}: ${word}: ${text}`)
}

/** A line for each word of a Spanish text that does not address the reader as "vos". */
export function wrongSpanish(file: string, text: string): string[] {
  return bannedSpanish.flatMap((words) =>
    (text.match(words) ?? []).map((word) => `${file}: ${word}: ${text}`),
  )
}

/** The share of sentences in the passive, over all files. */
export function passiveShare(found: readonly Readability[]): number {
  const sum = (of: (one: Readability) => number) => found.reduce((all, one) => all + of(one), 0)
  return sum(({ passive }) => passive) / sum(({ sentences }) => sentences)
}

/** Measures one file: a document, or a file of texts. */
export function measureText(file: string, source: string): Readability {
  const parts = file.endsWith('.md') ? proseOf(source) : textsOf(source)
  const splitter = new Intl.Segmenter('en', { granularity: 'sentence' })
  const sentences = parts
    .flatMap((part) => [...splitter.segment(part)].map(({ segment }) => segment.trim()))
    .filter((sentence) => /\p{L}{2}/u.test(sentence))
  return {
    file,
    sentences: sentences.length,
    passive: sentences.filter(isPassive).length,
    tooLong: sentences.filter((sentence) => wordsOf(sentence) > longest),
    bannedWords: sentences.flatMap((sentence) =>
      (sentence.match(bannedWords) ?? []).map((word) => `${word}: ${sentence}`),
    ),
  }
}

const onlyPassive = { ...Object.fromEntries(noChecks()), passive: true }

function noChecks() {
  const names = ['weasel', 'illusion', 'so', 'thereIs', 'adverb', 'tooWordy', 'cliches', 'eprime']
  return names.map((name) => [name, false] as const)
}

function isPassive(sentence: string): boolean {
  return writeGood(sentence, onlyPassive).length > 0
}

function wordsOf(sentence: string): number {
  return sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length
}

/** Paragraphs, list entries, headings and cells of a document, without code. */
function proseOf(markdown: string): string[] {
  return markdown
    .replace(/^ *<!--.*-->$/gm, '')
    .replace(/^ *```[\s\S]*?^ *```$/gm, '\n')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`[^`]*`/g, 'code')
    .replace(/\{\w+\}/g, 'value')
    .replace(/[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}/g, '')
    .split(/\n\s*\n|^ *(?:[-*]|\d+\.) |^#+ |\||:\n/m)
    .map((part) => part.replace(/\s+/g, ' ').trim())
    .filter((part) => part !== '')
}

/** The values of a file of texts; a placeholder counts as a word. */
function textsOf(source: string): string[] {
  const values = source.matchAll(/:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g)
  return [...values].map(([, one, two]) => (one ?? two ?? '').replaceAll(/\{\w+\}/g, 'value'))
}

/** Comments, to skip them, and string literals; SQL is a template with a tag. */
const literals =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|(\bsql(?:<[^`]*>)?)?`((?:[^`\\]|\\.)*)`/g

/** The string literals of a source file that are sentences: of three words or more. A placeholder counts as a word. */
export function sentencesOf(source: string): string[] {
  return [...source.matchAll(literals)]
    .filter(([, , , tag]) => tag === undefined)
    .map(([, one, two, , template]) => (one ?? two ?? template ?? '').replaceAll(/\s+/g, ' '))
    .map((text) => text.replaceAll(/\$?\{[^{}]*\}/g, 'value'))
    .filter((text) => text.split(' ').length > 2)
}

/** The messages of the log calls of a source file. */
export function logLines(source: string): string[] {
  const calls = source.matchAll(
    /\blog(?:ger)?\??\.(?:info|warn|error|fatal)\((?:\n|.){0,300}?(?:'\)|',\n\s*\)|`\))/gi,
  )
  return [...calls].flatMap(([call]) => sentencesOf(call))
}
