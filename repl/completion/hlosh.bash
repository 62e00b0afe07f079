# Completion of hlosh's command line for bash. The program itself knows its options, commands and passes:
# `hlosh --complete LINE` prints what may stand at the end of LINE, one candidate per line, nothing for a file name.
_hlosh() {
  local typed prefix k
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" --complete "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  # Outside of quotes bash replaces only what stands behind the last = or : of a word.
  typed=${COMP_LINE:0:COMP_POINT}
  typed=${typed##*[[:space:]]}
  prefix=${typed%"${typed##*[=:]}"}
  for k in "${!COMPREPLY[@]}"; do COMPREPLY[k]=${COMPREPLY[k]#"$prefix"}; done
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -o default -F _hlosh hlosh
