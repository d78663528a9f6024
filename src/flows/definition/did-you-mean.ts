import { closestMatch } from 'leven'

/** The most similar candidate; undefined when none is similar enough. */
export function nearestWord(word: string, candidates: Iterable<string>): string | undefined {
  const given = plain(word)
  const byPlain = new Map([...candidates].map((candidate) => [plain(candidate), candidate]))
  const maxDistance = Math.max(1, Math.floor(given.length / 3))
  return byPlain.get(closestMatch(given, [...byPlain.keys()], { maxDistance }) ?? '')
}

/** Makes `poll_interval`, `poll-interval` and `PollInterval` equal. */
function plain(word: string): string {
  return word
    .slice(0, 64)
    .replace(/[\s_-]/g, '')
    .toLowerCase()
}
