const longest = 300
const namesAtMost = 10
/** Tokens and other long runs of letters and digits. */
const secrets = /\b(?:APP_USR|TEST|TG)-[\w-]+|\b(?=\w*\d|[0-9a-f]{32})\w{32,}\b|\w{40,}/g

/**
 * The provider's own words about a refused field, for the caller. Of a list of accepted names those come first that are nearest to
 * the given one.
 */
export function wordsOfProvider(text: string | null, given: string | undefined): string {
  const plain = (text ?? '').replace(secrets, '***').replace(/\s+/g, ' ').trim()
  return (given === undefined ? plain : withNearestFirst(plain, given)).slice(0, longest)
}

function withNearestFirst(text: string, given: string): string {
  const end = text.lastIndexOf(':')
  const names = text.slice(end + 1).split(',')
  if (end === -1 || names.length < 2) return text
  const near = names
    .map((name) => name.trim())
    .toSorted((one, other) => likeness(other, given) - likeness(one, given))
  return `${text.slice(0, end)}: ${near.slice(0, namesAtMost).join(', ')}`
}

/** The part of their pairs of letters that two names share, from 0 to 1. */
function likeness(one: string, other: string): number {
  const [ours, theirs] = [pairsOf(one), pairsOf(other)]
  const shared = [...ours].filter((pair) => theirs.has(pair)).length
  return (2 * shared) / Math.max(1, ours.size + theirs.size)
}

function pairsOf(name: string): Set<string> {
  const plain = name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
  return new Set([...plain].slice(1).map((letter, index) => plain[index] + letter))
}
