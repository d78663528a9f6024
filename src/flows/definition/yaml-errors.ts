import type { ErrorCode, YAMLError } from 'yaml'
import type { ReasonCode } from '../../texts/reason.ts'
import type { Finding } from './secret-references.ts'

const codes = {
  ALIAS_PROPS: 'YAML_ALIAS_PROPS',
  BAD_ALIAS: 'YAML_BAD_ALIAS',
  BAD_COLLECTION_TYPE: 'YAML_COLLECTION_TAG',
  BAD_DIRECTIVE: 'YAML_DIRECTIVE',
  BAD_DQ_ESCAPE: 'YAML_ESCAPE',
  BAD_INDENT: 'YAML_INDENT',
  BAD_PROP_ORDER: 'YAML_PROP_ORDER',
  BAD_SCALAR_START: 'YAML_SCALAR_START',
  BLOCK_AS_IMPLICIT_KEY: 'YAML_TWO_KEYS',
  BLOCK_IN_FLOW: 'YAML_BLOCK_IN_FLOW',
  DUPLICATE_KEY: 'KEY_STANDS_TWICE',
  IMPOSSIBLE: 'YAML_IMPOSSIBLE',
  KEY_OVER_1024_CHARS: 'YAML_KEY_LENGTH',
  MISSING_CHAR: 'YAML_MISSING_CHAR',
  MULTILINE_IMPLICIT_KEY: 'YAML_NO_KEY',
  MULTIPLE_ANCHORS: 'YAML_TWO_ANCHORS',
  MULTIPLE_DOCS: 'YAML_SECOND_DOCUMENT',
  MULTIPLE_TAGS: 'YAML_TWO_TAGS',
  NON_STRING_KEY: 'YAML_NO_TEXT_KEY',
  RESOURCE_EXHAUSTION: 'YAML_TOO_DEEP',
  TAB_AS_INDENT: 'YAML_TAB',
  TAG_RESOLVE_FAILED: 'YAML_UNKNOWN_TAG',
  UNEXPECTED_TOKEN: 'YAML_UNEXPECTED',
} as const satisfies Record<ErrorCode, ReasonCode>

/**
 * Our own message for a YAML error: the parser's messages quote the file, which may contain a password. The text of the line
 * determines the advice.
 */
export function yamlFinding({ code }: YAMLError, line: string): Finding {
  const why = { code: codes[code] }
  const isReference = code === 'UNEXPECTED_TOKEN' || code === 'MISSING_CHAR'
  const needsQuotes = isReference && /[{[,:]\s*\$\{/.test(line)
  return needsQuotes ? { why, hint: { code: 'REFERENCE_NEEDS_QUOTES' } } : { why }
}
