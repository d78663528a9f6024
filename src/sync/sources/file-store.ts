/** As much of an open file as reading needs: of the disk, or of a server. */
export type OpenFile = {
  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number; buffer: Buffer }>
}
