# The configuration out of berth.ini.epp. Put this file into a module as manifests/init.pp, and the
# template as templates/berth.ini.epp. Values come from Hiera as berth::values; there %{…} is Hiera's,
# and ${berth.ip} in an address is berthd's.
class berth (
  Hash   $values,
  String $config  = '/etc/berth/berth.ini',
  String $program = '/usr/sbin/berthd',
) {
  file { $config:
    ensure       => file,
    mode         => '0644',
    content      => epp('berth/berth.ini.epp', { 'berth' => $values }),
    validate_cmd => "${program} -t -c %",
  }
}
