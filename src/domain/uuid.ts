const shape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Whether a text has the form of our own ids. A column of them refuses any other text. */
export function isUuid(text: string): boolean {
  return shape.test(text)
}
