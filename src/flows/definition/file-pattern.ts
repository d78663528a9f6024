/** The file of a source: a folder with a name or a pattern of names. */
export type FilePattern = { folder: string; name: string; isGlob: boolean }

export function filePattern(folder: string, name: string): FilePattern {
  return { folder, name, isGlob: name.includes('*') }
}

/**
 * Creates a test for the names that match a pattern. `*` matches any characters, except the dot at the start of a hidden file.
 */
export function namesMatching(pattern: string): (name: string) => boolean {
  const isFitting = inOrder(pattern.split('*'))
  return (name) => isFitting(name) && (pattern.startsWith('.') || !name.startsWith('.'))
}

/**
 * Creates a test for names that contain the parts in order, with at least `minGap` characters between neighbours. Regular
 * expressions, and `path.matchesGlob`, need a second for four stars and a name of 250 characters.
 */
export function inOrder(parts: readonly string[], minGap = 0): (name: string) => boolean {
  const [first = '', ...others] = parts
  const last = others.pop()
  return (name) => {
    if (last === undefined) return name === first
    if (!name.startsWith(first) || !name.endsWith(last)) return false
    let end = first.length
    for (const part of others) {
      const at = name.indexOf(part, end + minGap)
      if (at === -1) return false
      end = at + part.length
    }
    return name.length - last.length >= end + minGap
  }
}
