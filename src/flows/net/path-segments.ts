/** Whether a path has `.` or `..` as a segment, also encoded or behind an encoded slash. */
export function hasDots(path: string): boolean {
  return decodedWhole(path)
    .split(/[/\\]/)
    .some((segment) => segment === '.' || segment === '..')
}

/** Decoded until it stays the same, since some servers decode twice. */
function decodedWhole(text: string): string {
  let known = text
  for (let round = 0; round < 5; round += 1) {
    const next = known.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
    if (next === known) return known
    known = next
  }
  return known
}
